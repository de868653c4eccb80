"""The oracle of updates, held to the recommendation's own sentences and examples."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.reference.update_primitives import Choices, UpdateError
from tests.support.reference.update_trees import (
    Attribute,
    Document,
    Element,
    Name,
    Node,
    Text,
    below,
    read_document,
    written,
)
from tests.support.reference.updates import Item, Op, Update, copy_source, update_copies


def tree(text: str) -> Element:
    root = read_document(text).children[0]
    assert isinstance(root, Element)
    root.parent = None
    return root


def at(root: Node, name: str) -> Node:
    """The node in a tree: an element by its local name, `@a` an attribute, `text()` and the like the first of a kind."""
    for node in below(root):
        kind = {"Text": "text()", "Comment": "comment()", "Instruction": "pi()"}.get(type(node).__name__, "")
        if isinstance(node, (Element, Attribute)):
            kind = "@" * isinstance(node, Attribute) + node.name.local
        if kind == name:
            return node
    raise KeyError(name)


def attribute(name: str, value: str = "", uri: str = "") -> Attribute:
    prefix, _, local = name.rpartition(":")
    return Attribute(Name(prefix, uri, local), value)


def changed(text: str, *updates: tuple[Op, str, Sequence[Item]], choices: Choices | None = None) -> Element:
    root = copy_source([tree(text)])
    assert isinstance(root, Element)
    update_copies([root], [Update(op, [at(root, target)], content) for op, target, content in updates], {}, choices)
    return root


def refused(text: str, *updates: tuple[Op, str, Sequence[Item]]) -> set[str]:
    with pytest.raises(UpdateError) as error:
        changed(text, *updates)
    return set(error.value.codes)


def same(root: Node, text: str) -> bool:
    return written([root]) == written([tree(text)])


def renamed(text: str, target: str, name: Name | str, **known: str) -> Element:
    root = tree(text)
    update_copies([root], [Update("rename", [at(root, target)], (), name)], known)
    return root


def not_renamed(text: str, target: str, name: Name | str, **known: str) -> set[str]:
    with pytest.raises(UpdateError) as error:
        renamed(text, target, name, **known)
    return set(error.value.codes)


# --- 2.4.1 insert -------------------------------------------------------------------------------------------------------


def test_inserted_nodes_become_siblings_or_children_in_their_order() -> None:
    b = [tree("<b/>"), tree("<c/>")]
    assert same(changed("<a><x/><y/></a>", ("before", "y", b)), "<a><x/><b/><c/><y/></a>")
    assert same(changed("<a><x/><y/></a>", ("after", "x", b)), "<a><x/><b/><c/><y/></a>")
    assert same(changed("<a><x/><y/></a>", ("as first into", "a", b)), "<a><b/><c/><x/><y/></a>")
    assert same(changed("<a><x/><y/></a>", ("as last into", "a", b)), "<a><x/><y/><b/><c/></a>")
    assert same(changed("<a><x/></a>", ("into", "a", b)), "<a><x/><b/><c/></a>")
    assert same(changed("<a><x/></a>", ("into", "a", b), choices=Choices(into="first")), "<a><b/><c/><x/></a>")


def test_nothing_comes_between_a_node_and_what_is_inserted_after_it_but_the_same() -> None:
    insertions: list[tuple[Op, str, Sequence[Item]]] = [
        ("as last into", "a", [tree("<last/>")]),
        ("into", "a", [tree("<in/>")]),
        ("after", "x", [tree("<one/>")]),
        ("after", "x", [tree("<two/>")]),
        ("as first into", "a", [tree("<first/>")]),
    ]
    assert same(changed("<a><x/></a>", *insertions), "<a><first/><x/><one/><two/><in/><last/></a>")
    backwards = Choices(backwards=frozenset({"insertAfter"}))
    expected = "<a><first/><x/><two/><one/><in/><last/></a>"
    assert same(changed("<a><x/></a>", *insertions, choices=backwards), expected)


def test_content_is_made_as_in_an_element_constructor() -> None:
    document = read_document("<!--c--><d/>")
    content: list[Item] = ["1", "2", Text("x"), "", "y", document]
    assert same(changed("<a>0</a>", ("into", "a", content)), "<a>01 2x y<!--c--><d/></a>")


def test_attributes_come_first_and_go_to_the_parent_of_a_sibling() -> None:
    assert refused("<a/>", ("into", "a", [Text(""), attribute("p")])) == {"XUTY0004"}
    assert same(changed("<a><b/></a>", ("before", "b", [attribute("p", "1"), "t"])), '<a p="1">t<b/></a>')


def test_targets_of_insertions_are_checked() -> None:
    assert refused("<a x='1'>t</a>", ("into", "text()", ["t"])) == {"XUTY0005"}
    assert refused("<a x='1'>t</a>", ("as first into", "@x", [])) == {"XUTY0005"}
    assert refused("<a x='1'>t</a>", ("after", "@x", ["t"])) == {"XUTY0006"}
    assert refused("<a x='1'>t</a>", ("before", "a", ["t"])) == {"XUDY0029"}


def test_attributes_cannot_go_to_a_document() -> None:
    for op, code in (("into", "XUTY0022"), ("before", "XUDY0030")):
        document = read_document("<a/>")
        target = document if op == "into" else document.children[0]
        with pytest.raises(UpdateError) as error:
            update_copies([document], [Update(op, [target], [attribute("x")])])  # type: ignore[arg-type]
        assert error.value.codes == {code}


def test_namespaces_of_attributes_may_not_be_in_conflict() -> None:
    assert refused('<a xmlns:p="urn:1"/>', ("into", "a", [attribute("p:x", "", "urn:2")])) == {"XUDY0023"}
    both = [attribute("p:x", "", "urn:2"), attribute("p:y", "", "urn:1")]
    assert refused("<a/>", ("into", "a", both)) == {"XUDY0024"}
    assert refused("<a/>", ("into", "a", both[:1]), ("into", "a", both[1:])) == {"XUDY0024"}


def test_an_attribute_without_a_prefix_is_in_conflict_with_nothing() -> None:
    assert same(changed('<a xmlns="urn:1"/>', ("into", "a", [attribute("x")])), '<a xmlns="urn:1" x=""/>')


# --- 2.4.2 delete -------------------------------------------------------------------------------------------------------


def test_deleting_ignores_what_has_no_parent_and_may_be_done_twice() -> None:
    assert same(changed("<a><b/></a>", ("delete", "a", [])), "<a><b/></a>")
    assert same(changed("<a><b/>t</a>", ("delete", "b", []), ("delete", "b", [])), "<a>t</a>")
    update_copies([tree("<a/>")], [Update("delete", [tree("<not-a-copy/>")])])


def test_only_nodes_can_be_deleted() -> None:
    root = tree("<a><b/></a>")
    with pytest.raises(UpdateError, match="XUTY0007"):
        update_copies([root], [Update("delete", [root.children[0], "b"])])


# --- 2.4.3 replace ------------------------------------------------------------------------------------------------------


def test_replacements_take_the_place_of_a_node() -> None:
    assert same(changed("<a><b/><c/></a>", ("replace", "b", ["x", tree("<d/>")])), "<a>x<d/><c/></a>")
    assert same(changed("<a><b/><c/></a>", ("replace", "b", [])), "<a><c/></a>")
    assert same(changed("<a x='1' y='2'/>", ("replace", "@x", [attribute("z", "3")])), "<a y='2' z='3'/>")


def test_replacements_are_checked() -> None:
    assert refused("<a/>", ("replace", "a", [])) == {"XUDY0009"}
    assert refused("<a><b/></a>", ("replace", "b", [attribute("x")])) == {"XUTY0010"}
    assert refused("<a x='1'/>", ("replace", "@x", [""])) == {"XUTY0011"}
    assert refused('<a xmlns:p="urn:1" x="1"/>', ("replace", "@x", [attribute("p:y", "", "urn:2")])) == {"XUDY0023"}
    document = read_document("<a/>")
    with pytest.raises(UpdateError, match="XUTY0008"):
        update_copies([document], [Update("replace", [document])])


def test_replacing_the_value_of_an_element_leaves_one_text_node_and_its_attributes() -> None:
    value: Sequence[Item] = ["1", tree("<b>x<c>y</c></b>")]
    assert same(changed("<a p='1'>t<b/></a>", ("replace value", "a", value)), "<a p='1'>1 xy</a>")
    assert same(changed("<a>t<b/></a>", ("replace value", "a", [])), "<a/>")
    assert same(changed("<a>t<b/></a>", ("replace value", "a", [""])), "<a/>")


def test_replacing_the_value_of_other_nodes() -> None:
    assert same(changed("<a p='1'/>", ("replace value", "@p", ["2", "3"])), "<a p='2 3'/>")
    assert same(changed("<a>t<b/></a>", ("replace value", "text()", [])), "<a><b/></a>")
    assert same(changed("<a><!--c--><?p v?></a>", ("replace value", "pi()", ["w"])), "<a><!--c--><?p w?></a>")
    assert refused("<a><!--c--></a>", ("replace value", "comment()", ["a--b"])) == {"XQDY0072"}
    assert refused("<a><!--c--></a>", ("replace value", "comment()", ["b-"])) == {"XQDY0072"}
    assert refused("<a><?p v?></a>", ("replace value", "pi()", ["?>"])) == {"XQDY0026"}


# --- 2.4.4 rename -------------------------------------------------------------------------------------------------------


def test_renaming_binds_the_namespace_of_the_name() -> None:
    new = Name("p", "urn:1", "n")
    assert same(renamed("<a><b/></a>", "a", new), '<p:n xmlns:p="urn:1"><b/></p:n>')
    assert same(renamed("<a x='1'/>", "@x", new), '<a xmlns:p="urn:1" p:n="1"/>')
    assert same(renamed("<a><?p v?></a>", "pi()", "n"), "<a><?n v?></a>")
    assert same(renamed("<a/>", "a", "p:n", p="urn:1"), '<p:n xmlns:p="urn:1"/>')


def test_a_new_default_namespace_is_not_propagated() -> None:
    root = renamed("<a><b/></a>", "a", Name("", "urn:1", "n"))
    assert same(root, '<n xmlns="urn:1"><b xmlns=""/></n>')


def test_new_names_are_checked() -> None:
    assert not_renamed('<a xmlns:p="urn:2"/>', "a", Name("p", "urn:1", "n")) == {"XUDY0023"}
    assert not_renamed('<a xmlns="urn:2"/>', "a", Name("", "", "n")) == {"XUDY0023"}
    assert not_renamed('<a xmlns:p="urn:2" x="1"/>', "@x", Name("p", "urn:1", "n")) == {"XUDY0023"}
    assert not_renamed("<a>t</a>", "text()", "n") == {"XUTY0012"}
    assert not_renamed("<a/>", "a", "q:n") == {"XQDY0074"}
    assert not_renamed("<a/>", "a", "1") == {"XQDY0074"}
    assert not_renamed("<a x=''/>", "@x", "xmlns") == {"XQDY0044"}
    assert not_renamed("<a><?p?></a>", "pi()", "a:b") == {"XQDY0041"}
    assert not_renamed("<a><?p?></a>", "pi()", "XML") == {"XQDY0064"}
    assert not_renamed("<a><?p?></a>", "pi()", Name("", "", "n")) == {"XPTY0004"}


# --- 2.4.5 transform ----------------------------------------------------------------------------------------------------


def test_a_copy_is_of_one_node_and_keeps_namespaces_in_scope() -> None:
    for items in ([], ["x"], [Text("x"), Text("y")]):
        with pytest.raises(UpdateError, match="XUTY0013"):
            copy_source(items)
    inner = tree('<a xmlns:p="urn:1"><b/></a>').children[0]
    assert same(copy_source([inner]), '<b xmlns:p="urn:1"/>')


def test_only_nodes_of_the_copies_can_be_updated() -> None:
    original = tree("<a><b/></a>")
    for updates in ([Update("into", [original], ["x"])], [Update("delete", [original.children[0]])]):
        with pytest.raises(UpdateError, match="XUDY0014"):
            update_copies([copy_source([original])], updates)
    update_copies([copy_source([original])], [Update("into", [original], [])])  # no primitive, nothing wrong


# --- 2.4.6 and 3.2.2: several updates together --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "target", "code"),
    [
        ("replace", "b", "XUDY0016"),
        ("replace value", "b", "XUDY0017"),
        ("replace value", "@x", "XUDY0017"),
    ],
)
def test_some_updates_can_be_done_once_only(op: Op, target: str, code: str) -> None:
    assert refused("<a><b x='1'/></a>", (op, target, []), (op, target, [])) == {code}


def test_two_names_for_one_node_are_refused() -> None:
    root = tree("<a/>")
    with pytest.raises(UpdateError, match="XUDY0015"):
        update_copies([root], [Update("rename", [root], (), "b"), Update("rename", [root], (), "b")])


def test_the_children_of_an_element_are_determined_by_its_new_value() -> None:
    root = changed("<A><B/></A>", ("replace", "B", [tree("<C>Hello</C>")]), ("replace value", "A", [Text("Goodbye")]))
    assert same(root, "<A>Goodbye</A>")


def test_a_node_that_is_deleted_still_says_where_its_siblings_go() -> None:
    root = changed("<a><b/><c/></a>", ("delete", "b", []), ("after", "b", ["x"]), ("into", "b", ["lost"]))
    assert same(root, "<a>x<c/></a>")


def test_a_replaced_node_stays_replaced_when_it_is_deleted_too() -> None:
    assert same(changed("<a><b/></a>", ("delete", "b", []), ("replace", "b", [tree("<c/>")])), "<a><c/></a>")


def test_text_nodes_that_meet_become_one() -> None:
    root = changed("<a>x<b/>y</a>", ("delete", "b", []))
    assert [string.value for string in root.children if isinstance(string, Text)] == ["xy"]


def test_two_attributes_of_one_name_are_refused_only_if_they_remain() -> None:
    assert refused("<a x='1'/>", ("into", "a", [attribute("x")])) == {"XUDY0021"}
    assert same(changed("<a x='1'/>", ("into", "a", [attribute("x", "2")]), ("delete", "@x", [])), "<a x='2'/>")
    assert refused("<a><b x='1'/></a>", ("into", "b", [attribute("x")]), ("delete", "b", [])) == {"XUDY0021"}


def test_what_is_inserted_inherits_prefixes_but_no_default_namespace() -> None:
    root = changed('<a xmlns="urn:1" xmlns:p="urn:2"/>', ("into", "a", [tree("<b><c/></b>")]))
    b = root.children[0]
    assert isinstance(b, Element)
    c = b.children[0]
    assert isinstance(c, Element)
    assert b.namespaces == c.namespaces == {"p": "urn:2"}


def test_every_error_that_applies_may_be_raised() -> None:
    found = refused("<a xmlns:p='urn:1'/>", ("into", "a", ["", attribute("p:x", "", "urn:2")]), ("replace", "a", []))
    assert found == {"XUTY0004", "XUDY0023", "XUDY0009"}


def test_documents_are_changed_like_elements() -> None:
    document = copy_source([read_document("<a/>")])
    assert isinstance(document, Document)
    update_copies([document], [Update("as first into", [document], [tree("<b/>"), "t"])])
    assert written(document.children) == written([tree("<b/>"), Text("t"), tree("<a/>")])
