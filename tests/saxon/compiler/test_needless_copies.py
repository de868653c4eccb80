"""Which copies are not made before they are changed."""

from __future__ import annotations

import pytest

from demaq.evaluation.saxon.compiled import compile_program
from demaq.language.loader import load_program_texts

PROLOG = "declare updating function local:drop($x) { delete node $x };"


@pytest.mark.parametrize(
    ("modify", "is_needless"),
    [
        ("()", True),
        ("(insert node <vip/> into $c, replace value of node $c/total with 7, delete node $c//internal)", True),
        ("for $i in $c/item[@n > 3] return rename node $i/@n as 'number'", True),
        ("rename node $c as 'other'", True),
        ("insert node /order/total into $c", True),
        ("let $all := $c/* return delete nodes $all", True),
        ("delete node $c", False),
        ("replace node $c/self::order with <x/>", False),
        ("delete node $c/total/..", False),
        ("delete node $c/total/following-sibling::*", False),
        ("if ($c is /order) then delete node $c/total else ()", False),
        ("if (root($c)) then delete node $c/total else ()", False),
        ("local:drop($c/total)", False),
        ("delete node (function($x) { $x })($c/total)", False),
        ("delete node ($c/total, /order/total)[1]", False),
        ("insert node (copy $d := $c/total modify delete node $d/x return $d) into $c", False),
    ],
)
def test_a_copy_is_made_where_it_could_be_distinguished_from_its_original(modify: str, is_needless: bool):
    text = f"{PROLOG} create queue a create queue b create rule r for a if (1) then copy $c := /order modify {modify} return do enqueue $c into b"
    compiled = compile_program(load_program_texts({"/app/app.dmq": text}))
    query = compiled._blocks[("rule", "0")].text

    outer = query[query.index("copy0 := Q{demaq:runtime}") :]
    assert outer.startswith("copy0 := Q{demaq:runtime}original(") == is_needless


def test_two_copies_of_one_node_are_two():
    text = "create queue a create queue b create rule r for a if (1) then copy $c := /x, $d := /x modify delete node $c/y return do enqueue <r>{$c, $d}</r> into b"
    compiled = compile_program(load_program_texts({"/app/app.dmq": text}))

    assert all(["original((" not in block.text for block in compiled._blocks.values()])
