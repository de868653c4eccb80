"""xmlsec and lxml in one process, with the same libxml2."""

from __future__ import annotations

import xmlsec
from lxml import etree

from tests.support.soap.security_parties import BODY_SIGNED, FULL, canonical, make_envelope, receive, send


def test_both_wheels_have_the_same_minor_version_of_libxml2():
    assert xmlsec.get_libxml_version()[:2] == etree.LIBXML_VERSION[:2]
    assert xmlsec.get_libxml_compiled_version()[:2] == etree.LIBXML_COMPILED_VERSION[:2]


def test_a_tree_of_one_is_used_by_the_other_many_times():
    for number in range(50):
        envelope = make_envelope(text="x" * number)
        requirements = FULL if number % 2 else BODY_SIGNED
        assert canonical(receive(send(requirements, envelope=envelope), requirements).data) == canonical(envelope)
