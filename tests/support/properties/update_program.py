"""A program that does any updates to any trees, and what its answers have to be.

A case is XML: `<case copy="1"><tree>…</tree><u op="into" at="3"><content>…</content></u>…</case>`. Nodes are known by
their numbers, in document order, attributes by name after their element. The program in Demaq's language and the
functions below it say the same twice: once with update expressions, once with the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.reference.update_primitives import UpdateError
from tests.support.reference.update_trees import (
    Attribute,
    Child,
    Document,
    Element,
    Name,
    Node,
    Text,
    adopt,
    below,
    copied,
    read,
    read_element,
    string_value,
    written,
)
from tests.support.reference.updates import Item, Op, Update, copy_source, update_copies

KNOWN = {"p": "urn:1", "q": "urn:2"}
"""The prefixes that a name may use that is given as a string."""

FUNCTIONS = """
declare namespace p = "urn:1";
declare namespace q = "urn:2";
declare namespace err = "http://www.w3.org/2005/xqt-errors";

declare function local:nodes($roots as node()*) as node()* {
  for $root in $roots
  for $node in $root/descendant-or-self::node()
  return ($node, for $a in $node/@* order by namespace-uri($a), local-name($a) return $a)
};

declare function local:picked($at as xs:string?, $nodes as node()*, $outside as node()) as item()* {
  for $one in tokenize($at)
  return
    if ($one = "atomic") then "atomic"
    else if ($one = "outside") then $outside
    else if ($one = "document") then document { $nodes[empty(..) or parent::tree][not(. instance of attribute())] }
    else $nodes[xs:integer($one)]
};

declare function local:content($u as element(), $nodes as node()*, $outside as node()) as item()* {
  for $item in $u/content/*
  return
    if ($item/self::atom) then string($item)
    else if ($item/self::nodes) then $item/node()
    else if ($item/self::attributes) then (for $a in $item/@* order by namespace-uri($a), local-name($a) return $a)
    else if ($item/self::document) then document { $item/node() }
    else if ($item/self::copy) then local:one($item, local:picked($item/@at, $nodes, $outside), $nodes[1])
    else local:picked($item/@at, $nodes, $outside)
};

declare function local:name($u as element()) as item() {
  if ($u/@uri) then QName($u/@uri, $u/@name) else string($u/@name)
};

declare function local:one($case as element(), $source as item()*, $outside as node()) as node() {
  copy $c := $source
  modify
    for $u in $case/u
    let $target := local:picked($u/@at, local:nodes($c), $outside)
    let $content := local:content($u, local:nodes($c), $outside)
    return
      if ($u/@op = "into") then insert nodes $content into $target
      else if ($u/@op = "as first into") then insert nodes $content as first into $target
      else if ($u/@op = "as last into") then insert nodes $content as last into $target
      else if ($u/@op = "before") then insert nodes $content before $target
      else if ($u/@op = "after") then insert nodes $content after $target
      else if ($u/@op = "delete") then delete nodes $target
      else if ($u/@op = "replace") then replace node $target with $content
      else if ($u/@op = "replace value") then replace value of node $target with $content
      else rename node $target as local:name($u)
  return $c
};
"""

TWO = """
declare updating function local:update($u as element(), $nodes as node()*, $outside as node()) {
  let $target := local:picked($u/@at, $nodes, $outside)
  let $content := local:content($u, $nodes, $outside)
  return
    switch (string($u/@op))
      case "into" return do insert $content into $target
      case "as first into" return do insert $content as first into $target
      case "as last into" return do insert $content as last into $target
      case "before" return do insert $content before $target
      case "after" return do insert $content after $target
      case "delete" return do delete $target
      case "replace" return do replace $target with $content
      case "replace value" return do replace value of $target with $content
      default return do rename $target as local:name($u)
};

declare function local:two($case as element()) as node()* {
  transform
  copy $c := local:picked($case/@copy, local:nodes($case/tree/node()), $case/tree/*),
       $d := local:picked($case/@second, local:nodes($c), $case/tree/*)
  modify for $u in $case/u return local:update($u, local:nodes(($c, $d)), $case/tree/*)
  return ($c, $d)
};
"""

RULES = """
create queue cases
create queue answers
create rule answer for cases if (true()) then do enqueue
  <answers>{
    for $case in /cases/case
    return
      try { <ok>{ for $copy in ANSWER return <c>{$copy}</c> }</ok> }
      catch * { <error>{local-name-from-QName($err:code)}</error> }
  }</answers> into answers
"""

ONE_COPY = FUNCTIONS + RULES.replace(
    "ANSWER", "local:one($case, local:picked($case/@copy, local:nodes($case/tree/node()), $case/tree/*), $case/tree/*)"
)
"""One copied variable, and the recommendation's syntax."""

TWO_COPIES = FUNCTIONS + TWO + RULES.replace("ANSWER", "local:two($case)")
"""Two copied variables, an updating function, and the syntax of the draft of 2006."""


def expected(text: str) -> tuple[str, Any]:
    """`ok` with what the copies have become, or `error` with the codes that are allowed."""
    case = read_element(text)
    try:
        copies = _two(case) if "second" in _attributes(case) else [_one(case, _source(case), _tree(case))]
    except UpdateError as error:
        return ("error", error.codes)
    return ("ok", written([_answered(copy) for copy in copies]))


def answered(source: Any) -> tuple[str, Any]:
    """The same, read from an answer of the program."""
    if source.tag == "error":
        return ("error", source.text)
    return ("ok", written([read(copy) for copy in source]))


def _answered(copy: Node) -> Element:
    """A copy as the content of `<c>`."""
    parent = Element(Name("", "", "c"))
    if isinstance(copy, Attribute):
        adopt(parent, [copy])
        if copy.name.prefix not in ("", "xml"):
            parent.namespaces[copy.name.prefix] = copy.name.uri
    elif isinstance(copy, Document):
        adopt(parent, children=copy.children)
    elif not (isinstance(copy, Text) and not copy.value):
        adopt(parent, children=[copy])
    return parent


def _one(case: Element, source: Sequence[Item], outside: Node) -> Node:
    copy = copy_source(source)
    _update([copy], case, outside)
    return copy


def _two(case: Element) -> list[Node]:
    first = copy_source(_source(case))
    second = copy_source(_picked(_attributes(case)["second"], _nodes([first]), _tree(case)))
    _update([first, second], case, _tree(case))
    return [first, second]


def _update(copies: Sequence[Node], case: Element, outside: Node) -> None:
    nodes = _nodes(copies)
    updates: list[Update] = []
    errors: set[str] = set()
    for u in _children(case, "u"):
        given = _attributes(u)
        content: list[Item] = []
        try:
            content = _content(u, nodes, outside)
        except UpdateError as error:  # an expression inside; others may be evaluated before it
            errors |= error.codes
        op: Op = given["op"]  # type: ignore[assignment]
        updates.append(Update(op, _picked(given["at"], nodes, outside), content, _name(given)))
    try:
        update_copies(copies, updates, KNOWN)
    except UpdateError as error:
        errors |= error.codes
    if errors:
        raise UpdateError(errors)


def _name(given: dict[str, str]) -> Name | str | None:
    if "uri" not in given:
        return given.get("name")
    prefix, _, local = given["name"].rpartition(":")
    return Name(prefix, given["uri"], local)


def _content(u: Element, nodes: Sequence[Node], outside: Node) -> list[Item]:
    found: list[Item] = []
    for item in [child for content in _children(u, "content") for child in _children(content)]:
        match item.name.local:
            case "atom":
                found.append(string_value(item))
            case "nodes":
                found += item.children
            case "attributes":
                attributes = sorted(item.attributes, key=lambda attribute: attribute.name.key)
                found += attributes
            case "document":
                found.append(_document(item.children))
            case "copy":
                found.append(_one(item, _picked(_attributes(item)["at"], nodes, outside), nodes[0]))
            case _:
                found += _picked(_attributes(item)["at"], nodes, outside)
    return found


def _picked(at: str, nodes: Sequence[Node], outside: Node) -> list[Item]:
    found: list[Item] = []
    for one in at.split():
        if one == "atomic":
            found.append("atomic")
        elif one == "outside":
            found.append(outside)
        elif one == "document":
            tops = [node for node in nodes if node.parent is None or _is_tree(node.parent)]
            found.append(_document([node for node in tops if not isinstance(node, (Attribute, Document))]))
        elif int(one) <= len(nodes):
            found.append(nodes[int(one) - 1])
    return found


def _document(children: Sequence[Child]) -> Document:
    document = Document()
    copies = [copied(child) for child in children]
    adopt(document, children=[copy for copy in copies if not isinstance(copy, (Attribute, Document))])
    return document


def _is_tree(node: Node) -> bool:
    return isinstance(node, Element) and node.name.key == ("", "tree")


def _source(case: Element) -> list[Item]:
    (tree,) = _children(case, "tree")
    return _picked(_attributes(case)["copy"], _nodes(tree.children), _tree(case))


def _tree(case: Element) -> Element:
    """The outermost element of a case's tree."""
    (tree,) = _children(case, "tree")
    (root,) = _children(tree)
    return root


def _nodes(roots: Sequence[Node]) -> list[Node]:
    return [node for root in roots for node in below(root)]


def _children(element: Element, name: str | None = None) -> list[Element]:
    found = [child for child in element.children if isinstance(child, Element)]
    return [child for child in found if name in (None, child.name.local)]


def _attributes(element: Element) -> dict[str, str]:
    return {attribute.name.local: attribute.value for attribute in element.attributes}
