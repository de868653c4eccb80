"""Random changes of secured envelopes: nothing that differs in a required part is accepted, and nothing crashes."""

from __future__ import annotations

import copy
import random
import re
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from demaq.errors import ERROR_KINDS
from demaq.soap import make_fault_answer
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import AlgorithmSuite, ProtectionOrder, SecurityRequirements, TokenForm, UsernameRequirement
from demaq.soap.security import algorithm_suite as algorithms
from tests.support.drawing import draw_until, example_count, run_seed
from tests.support.soap.security_parties import (
    BODY_SIGNED,
    FULL,
    NAMESPACES,
    PASSWORD,
    WSA,
    make_envelope,
    receive,
    send,
)

EXAMPLES = 100
WSU_ID = f"{{{NAMESPACES['wsu']}}}Id"
POLICIES: tuple[SecurityRequirements, ...] = (
    BODY_SIGNED,
    replace(BODY_SIGNED, username=UsernameRequirement(signed=True)),
    replace(BODY_SIGNED, signing_tokens=(TokenForm.ISSUER_SERIAL, TokenForm.THUMBPRINT)),
    FULL,
    replace(FULL, order=ProtectionOrder.ENCRYPT_BEFORE_SIGN),
    replace(FULL, suite=AlgorithmSuite(data=(algorithms.AES128_CBC,), key_transport=(algorithms.RSA_1_5,))),
    replace(FULL, username=UsernameRequirement(signed=True, encrypted=True)),
)
Mutation = Callable[[Any, random.Random], None]


def elements(root):
    return list(root.iter("*"))


def pick(root, dice):
    return dice.choice(elements(root)[1:])


def move(root, dice):
    one, other = pick(root, dice), pick(root, dice)
    if one not in [other, *other.iterancestors()]:
        other.insert(dice.randrange(len(other) + 1), one)


def copy_element(root, dice):
    one, other = pick(root, dice), pick(root, dice)
    twin = copy.deepcopy(one)
    if dice.random() < 0.7:
        for element in twin.iter("*"):
            for name in (WSU_ID, "Id"):
                element.attrib.pop(name, None)
    if dice.random() < 0.5:
        twin.text = "evil"
    other.insert(dice.randrange(len(other) + 1), twin)


def wrap(root, dice):
    one = pick(root, dice)
    parent = one.getparent()
    wrapper = etree.Element(dice.choice(["{urn:w}wrapper", parent.tag, one.tag]))
    parent.replace(one, wrapper)
    wrapper.append(one)


def wrap_and_replace(root, dice):
    """The classic: the signed element elsewhere, an evil twin without its Id in its place."""
    one = dice.choice([element for element in elements(root)[1:] if WSU_ID in element.attrib or "Id" in element.attrib])
    parent = one.getparent()
    twin = copy.deepcopy(one)
    for name in (WSU_ID, "Id"):
        if dice.random() < 0.8:
            twin.attrib.pop(name, None)
    victim = dice.choice(elements(twin))
    victim.text = "evil"
    parent.replace(one, twin)
    place = dice.choice([root, *elements(root)])
    if dice.random() < 0.5:
        place = etree.SubElement(place, "{urn:w}wrapper")
    place.append(one)


def delete(root, dice):
    one = pick(root, dice)
    one.getparent().remove(one)


def unwrap(root, dice):
    one = pick(root, dice)
    parent = one.getparent()
    place = parent.index(one)
    for child in reversed(list(one)):
        parent.insert(place, child)
    parent.remove(one)


def change_text(root, dice):
    one = dice.choice([element for element in elements(root) if element.text] or elements(root))
    text = one.text or " "
    at = dice.randrange(len(text))
    one.text = text[:at] + dice.choice(["A", "7", " ", "", "=", "é", "\n"]) + text[at + dice.randrange(2) :]


def change_attribute(root, dice):
    one = dice.choice([element for element in elements(root) if element.attrib])
    name = dice.choice(list(one.attrib))
    one.set(name, dice.choice(["", "x", one.get(name) + "x", one.get(name)[:-1], "#" + one.get(name)]))


def add_attribute(root, dice):
    ids = [element.get(name) for element in elements(root) for name in (WSU_ID, "Id") if name in element.attrib]
    name = dice.choice([WSU_ID, "Id", "ID", "{http://www.w3.org/XML/1998/namespace}id", "Type", "{urn:w}a"])
    pick(root, dice).set(name, dice.choice([*ids, "new"]))


def change_ids(root, dice):
    uses = [element for element in elements(root) if element.get("URI", "").startswith("#")]
    ids = [element.get(name) for element in elements(root) for name in (WSU_ID, "Id") if name in element.attrib]
    if uses:
        dice.choice(uses).set("URI", "#" + dice.choice(ids))


def swap_ids(root, dice):
    holders = [element for element in elements(root) if WSU_ID in element.attrib]
    one, other = dice.choice(holders), dice.choice(holders)
    first, second = one.get(WSU_ID), other.get(WSU_ID)
    one.set(WSU_ID, second)
    other.set(WSU_ID, first)


def swap_algorithms(root, dice):
    users = [element for element in elements(root) if "Algorithm" in element.attrib]
    known = [value for name, value in vars(algorithms).items() if isinstance(value, str) and value.startswith("http")]
    more = ["http://www.w3.org/TR/1999/REC-xslt-19991116", "http://www.w3.org/2000/09/xmldsig#hmac-sha1"]
    if users:
        dice.choice(users).set("Algorithm", dice.choice([*known, *more, *[user.get("Algorithm") for user in users]]))


def swap_with_another_message(root, dice):
    """Take an element from another message of the same sender."""
    one = pick(root, dice)
    same = [element for element in elements(OTHERS[dice.randrange(len(OTHERS))]) if element.tag == one.tag]
    if same:
        one.getparent().replace(one, copy.deepcopy(dice.choice(same)))


def swap_neighbours(root, dice):
    parents = [element for element in elements(root) if len(element) > 1]
    parent = dice.choice(parents)
    at = dice.randrange(len(parent) - 1)
    parent.insert(at, parent[at + 1])


def rename(root, dice):
    pick(root, dice).tag = dice.choice([element.tag for element in elements(root)])


def add_comment(root, dice):
    pick(root, dice).insert(0, etree.Comment("harmless"))


def declare_namespace(root, dice):
    """Harmless, unless the prefix is used."""
    one = pick(root, dice)
    again = etree.Element(one.tag, dict(one.attrib), {**one.nsmap, "unused": "urn:unused"})
    again.text, again.tail = one.text, one.tail
    one.getparent().replace(one, again)
    for child in list(one):
        again.append(child)


MUTATIONS: tuple[Mutation, ...] = (
    move,
    copy_element,
    wrap,
    wrap_and_replace,
    delete,
    unwrap,
    change_text,
    change_attribute,
    add_attribute,
    change_ids,
    swap_ids,
    swap_algorithms,
    swap_with_another_message,
    swap_neighbours,
    rename,
    add_comment,
    declare_namespace,
)
OTHERS: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def other_messages():
    for policy in POLICIES:
        OTHERS.append(etree.fromstring(send(policy, envelope=make_envelope(text="another"))))


def required_parts(data):
    """Return the parts that all policies want signed, as they are processed."""
    root = etree.fromstring(data)
    headers: Any = root.xpath("/*/*[1]/wsa:*", namespaces=NAMESPACES)
    parts = [root[-1], *headers]
    return sorted([etree.tostring(part, method="c14n", exclusive=True) for part in parts])


def check_refusal(refused):
    assert refused.kind in ERROR_KINDS
    for version in ("1.1", "1.2"):
        assert etree.fromstring(make_fault_answer(version, refused).data) is not None
    assert PASSWORD not in refused.message


@pytest.mark.draws
@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_nothing_that_was_changed_in_a_required_part_is_accepted(policy):
    dice = random.Random(f"{run_seed()} {POLICIES.index(policy)}")
    original = send(policy)
    expected = required_parts(receive(original, policy).data)
    seen: Counter[str] = Counter()
    examples = draw_until(lambda: seen["accepted"] > 0, EXAMPLES, "DEMAQ_SECURITY_EXAMPLES")
    for number, _ in enumerate(examples):
        seen["drawn"] += 1
        root = etree.fromstring(original)
        used = [dice.choice(MUTATIONS) for _ in range(1 if number % 2 else dice.randint(2, 4))]
        for mutate in used:
            if len(root) > 1 and len(elements(root)) > 3:
                mutate(root, dice)
        data = etree.tostring(root)
        seen["changed"] += data != etree.tostring(etree.fromstring(original))
        try:
            received = receive(data, policy)
        except SoapRefusal as refused:
            seen["refused"] += 1
            seen[refused.kind] += 1
            check_refusal(refused)
        else:
            seen["accepted"] += 1
            assert required_parts(received.data) == expected, [mutate.__name__ for mutate in used]
            assert received.is_body_signed
            assert {f"{{{WSA}}}Action", f"{{{WSA}}}MessageID"} <= received.signed_headers
    assert seen["changed"] > seen["drawn"] * 0.7
    assert seen["refused"] > seen["drawn"] * 0.4
    assert seen["accepted"], "harmless changes are accepted"
    if policy.suite == AlgorithmSuite():
        assert len([kind for kind in ERROR_KINDS if seen[kind]]) >= 2


@pytest.mark.draws
def test_damaged_bytes_never_crash():
    dice = random.Random(run_seed())
    accepted = 0
    count = example_count(EXAMPLES, "DEMAQ_SECURITY_EXAMPLES")
    originals = [(policy, send(policy)) for policy in POLICIES]
    for _ in range(count):
        policy, original = dice.choice(originals)
        data = bytearray(original)
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(data))
            what = dice.randrange(3)
            if what == 0:
                data[at] = dice.randrange(256)
            elif what == 1:
                del data[at : at + dice.randint(1, 30)]
            else:
                data[at:at] = data[dice.randrange(len(data)) :][: dice.randint(1, 60)]
        try:
            received = receive(bytes(data), policy)
        except SoapRefusal:
            continue
        accepted += 1
        assert required_parts(received.data) == required_parts(receive(original, policy).data)
    assert accepted < count / 2


@pytest.mark.draws
def test_random_headers_never_crash():
    """Elements of a security header in any nesting, with any references."""
    dice = random.Random(run_seed())
    tags = sorted({element.tag for other in OTHERS for element in elements(other)})
    count = example_count(EXAMPLES, "DEMAQ_SECURITY_EXAMPLES")
    reasons: Counter[str] = Counter()
    for _ in range(count):
        root = etree.fromstring(make_envelope())
        security = etree.SubElement(root[0], f"{{{NAMESPACES['wsse']}}}Security")
        made = [security]
        for number in range(dice.randint(1, 25)):
            added = etree.SubElement(dice.choice(made[-6:]), dice.choice(tags))
            made.append(added)
            added.text = dice.choice([None, "AAAA", secrets.token_hex(4), "2026-05-01T12:00:00Z"])
            added.set(WSU_ID, f"i{number}")
            if dice.random() < 0.5:
                added.set("URI", f"#i{dice.randrange(25)}")
            if dice.random() < 0.5:
                added.set("Algorithm", dice.choice([algorithms.RSA_SHA256, algorithms.SHA256, algorithms.AES256_GCM]))
        with pytest.raises(SoapRefusal) as refused:
            receive(etree.tostring(root), dice.choice(POLICIES))
        reasons[re.sub(r"[0-9]+", "", refused.value.message)] += 1
    assert len(reasons) > 5
