"""Trees and updates of them, imagined: most can be done, some cannot, and many meet at the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from tests.support.reference.update_trees import (
    Attribute,
    Comment,
    Document,
    Element,
    Instruction,
    Node,
    Text,
    below,
    read_element,
)

LOCALS = ("a", "b", "c")
ATTRIBUTES = ("x", "x", "y", "p:x", "q:y", "xml:lang")
TEXTS = ("t", "u v", "1", " ", "&lt;")
VALUES = ("", "1", "t", "a--b", "c-", "?>", " d ")
NAMES = ("a", "n", "p:n", "q:n", "x", "p:x")
WRONG_NAMES = ("z:n", "1", "xmlns", "xml", "p:", "a b")
DEPTH = 3
CHILDREN_MAX = 3
UPDATES_MAX = 4

FITTING: Mapping[str, tuple[type[Node], ...]] = {
    "into": (Document, Element),
    "as first into": (Document, Element),
    "as last into": (Document, Element),
    "before": (Element, Text, Comment, Instruction),
    "after": (Element, Text, Comment, Instruction),
    "delete": (Element, Attribute, Text, Comment, Instruction),
    "replace": (Element, Attribute, Text, Comment, Instruction),
    "replace value": (Element, Attribute, Text, Comment, Instruction),
    "rename": (Element, Attribute, Instruction),
}
"""What an update can be about; now and then it is about something else."""


@dataclass
class Imagination:
    random: Random

    def pick(self, options: Sequence[str]) -> str:
        return options[self.random.randrange(len(options))]

    def one_in(self, number: int) -> bool:
        """Rarely; and not where a case is made small."""
        return self.random.randrange(number) == number - 1

    # trees

    def uri(self, prefix: str) -> str:
        """A prefix has one meaning, mostly."""
        if not prefix:
            return "urn:1" if self.one_in(4) else ""
        usual, other = ("urn:1", "urn:2") if prefix == "p" else ("urn:2", "urn:1")
        return other if self.one_in(8) else usual

    def element(self, depth: int = DEPTH, scope: Mapping[str, str] | None = None) -> str:
        """An element. It declares what it uses where it is not in scope, and sometimes more."""
        inside = dict(scope or {})
        declared: dict[str, str] = {}
        prefix = self.pick(("", "", "", "p", "q"))

        def declare(used: str) -> None:
            uri = self.uri(used)
            if prefix and not used and not uri:
                return  # copies of Saxon inherit the default namespace there: docs/reference/updates.md
            if used not in declared and inside.get(used, "") != uri:
                declared[used] = inside[used] = uri

        if not (prefix in inside and self.random.randrange(2)):
            declare(prefix)
        if self.one_in(4):
            declare(self.pick(("p", "q", "")))
        attributes = self.attributes(declare, inside)
        content = "".join([self.child(depth - 1, inside) for _ in range(self.random.randrange(CHILDREN_MAX + 1))])
        name = f"{prefix}:{self.pick(LOCALS)}" if prefix else self.pick(LOCALS)
        spaces = "".join([f' xmlns{":" * bool(p)}{p}="{uri}"' for p, uri in declared.items()])
        return f"<{name}{spaces}{attributes}>{content}</{name}>"

    def attributes(self, declare: Callable[[str], None], inside: Mapping[str, str], most: int = 2) -> str:
        found: dict[tuple[str, str], str] = {}
        for _ in range(self.random.randrange(most + 1)):
            name = self.pick(ATTRIBUTES)
            prefix, _, local = name.rpartition(":")
            if prefix and prefix != "xml" and prefix not in inside:
                declare(prefix)
            uri = inside.get(prefix, "") if prefix and prefix != "xml" else prefix
            found.setdefault((uri, local), f" {name}={quoteattr(self.pick(VALUES))}")
        return "".join(found.values())

    def child(self, depth: int, scope: Mapping[str, str]) -> str:
        if depth > 0 and self.random.randrange(2):
            return self.element(depth, scope)
        return self.pick((*TEXTS, *TEXTS, "<!--c-->", "<?pi v?>"))

    # updates

    def case(self, two: bool = False) -> str:
        tree = "".join([self.pick(("", "", "<!--c-->")), self.element(), self.pick(("", "", "<?pi v?>"))])
        nodes = [node for top in read_element(f"<tree>{tree}</tree>").children for node in below(top)]
        source, roots = self.source(nodes)
        attributes = f' copy="{source}"'
        if two:
            copies = [node for root in roots for node in below(root)]
            second, more = self.source(copies, documents=False)
            attributes += f' second="{second}"'
            roots = [*roots, *more]
        return f"<case{attributes}><tree>{tree}</tree>{self.updates(roots)}</case>"

    def source(self, nodes: Sequence[Node], documents: bool = True) -> tuple[str, Sequence[Node]]:
        """What is copied, and the nodes that this will be."""
        if self.one_in(30):
            return self.pick(("atomic", "1 1", "")), []
        if documents and self.one_in(6):
            tops = [node for node in nodes if isinstance(node.parent, Element) and node.parent.name.local == "tree"]
            return "document", [Document([node for node in tops if not isinstance(node, (Attribute, Document))])]
        elements = [number for number, node in enumerate(nodes) if isinstance(node, (Element, Document))]
        if not elements or self.one_in(10):
            number = self.random.randrange(len(nodes)) if nodes else 0
        else:
            number = elements[0] if self.random.randrange(4) else elements[self.random.randrange(len(elements))]
        return str(number + 1), nodes[number : number + 1]

    def updates(self, roots: Sequence[Node], most: int = UPDATES_MAX) -> str:
        nodes = [node for root in roots for node in below(root)]
        return "".join([self.update(nodes, roots) for _ in range(self.random.randrange(most + 1))])

    def update(self, nodes: Sequence[Node], roots: Sequence[Node]) -> str:
        op = self.pick(tuple(FITTING))
        fitting = self.fitting(op, nodes, roots)
        if not fitting and not self.one_in(10):
            op = "delete"
        at = self.target(op, nodes, fitting)
        if op == "delete":
            return f'<u op="{op}" at="{at}"/>'
        if op == "rename":
            return f'<u op="{op}" at="{at}"{self.new_name()}/>'
        content = "".join([self.item(op, at, nodes) for _ in range(self.random.randrange(3))])
        return f'<u op="{op}" at="{at}"><content>{content}</content></u>'

    def fitting(self, op: str, nodes: Sequence[Node], roots: Sequence[Node]) -> list[int]:
        tops = [id(root) for root in roots] if op in ("before", "after", "replace") else []
        return [n for n, node in enumerate(nodes) if isinstance(node, FITTING[op]) and id(node) not in tops]

    def target(self, op: str, nodes: Sequence[Node], fitting: Sequence[int]) -> str:
        if self.one_in(40):
            return self.pick(("", "atomic", "outside", "1 2", "1 atomic"))
        if not fitting or self.one_in(40):
            return str(self.random.randrange(len(nodes)) + 1) if nodes else "1"
        return " ".join([str(self._any(fitting) + 1) for _ in range(2 if op == "delete" and self.one_in(4) else 1)])

    def _any(self, numbers: Sequence[int]) -> int:
        return numbers[self.random.randrange(len(numbers))]

    def new_name(self) -> str:
        """A name given as a string, or as a QName."""
        if self.one_in(8):
            return f' name="{self.pick(WRONG_NAMES)}"'
        name = self.pick(NAMES)
        prefix = name.rpartition(":")[0]
        if self.random.randrange(2) or not prefix:
            return f' name="{name}"'
        return f' name="{name}" uri="{self.uri(prefix)}"'

    def item(self, op: str, at: str, nodes: Sequence[Node]) -> str:
        target = nodes[int(at) - 1] if at.isdigit() and int(at) <= len(nodes) else None
        wants_attributes = op == "replace" and isinstance(target, Attribute)
        if wants_attributes != self.one_in(12):
            return self.new_attributes()
        kind = self.random.randrange(8)
        if kind < 3:
            return f"<nodes>{self.child(2, {})}{self.child(1, {})}</nodes>"
        if kind < 5:
            return f"<atom>{escape(self.pick(VALUES))}</atom>"
        if kind == 5 and op in ("into", "as first into", "as last into"):
            return self.new_attributes()
        if kind == 6 and nodes:
            return f'<node at="{self.random.randrange(len(nodes)) + 1}"/>'
        if kind == 7 and nodes:
            number = self.random.randrange(len(nodes))
            return f'<copy at="{number + 1}">{self.updates(nodes[number : number + 1], 2)}</copy>'
        return f"<document>{self.pick(('', '<!--c-->', 't'))}{self.element(2)}</document>"

    def new_attributes(self) -> str:
        declared: dict[str, str] = {}
        attributes = self.attributes(lambda prefix: declared.update({prefix: self.uri(prefix)}), declared, 1)
        spaces = "".join([f' xmlns:{prefix}="{uri}"' for prefix, uri in declared.items()])
        return f"<attributes{spaces}{attributes}/>"


@st.composite
def cases(draw: Any, two: bool = False, most: int = 10) -> list[str]:
    """Several cases, because asking the program costs more than answering."""
    random = draw(st.randoms(use_true_random=False))
    return [Imagination(random).case(two) for _ in range(draw(st.integers(1, most)))]
