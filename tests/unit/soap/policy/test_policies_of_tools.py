"""Policies as CXF, WCF, Metro and gSOAP print them, and what a gateway says about them in words."""

from __future__ import annotations

import random
import re

import pytest
from lxml import etree

from demaq.errors import ProgramError
from demaq.soap.policy.gateway_policy import GatewayPolicy
from demaq.soap.policy.policy_description import describe_policy
from demaq.soap.policy.statement_policies import read_policy_text
from tests.support.drawing import example_count, run_seed
from tests.support.soap.policies import (
    CXF,
    GSOAP,
    METRO,
    SIGNED_BODY,
    WCF_MESSAGE,
    WCF_RELIABLE,
    WCF_RELIABLE_1_1,
    WCF_TRANSPORT,
    policy,
    refused_text,
)

DAMAGED = example_count(400, "DAMAGED_POLICIES")
TOOLS = {
    "CXF": CXF,
    "WCF, reliable": WCF_RELIABLE,
    "WCF, reliable 1.1": WCF_RELIABLE_1_1,
    "WCF, transport": WCF_TRANSPORT,
    "Metro": METRO,
    "gSOAP": GSOAP,
}
BINARY = "X.509 (binary security token or certificate in the KeyInfo)"


def policy_of(tool: str) -> GatewayPolicy:
    return read_policy_text(TOOLS[tool].encode())


@pytest.mark.parametrize(
    ("tool", "sentences"),
    [
        (
            "CXF",
            [
                "requests that it accepts have a timestamp",
                f"requests that it accepts are signed: Body, Timestamp, addressing headers, with {BINARY}, RSA SHA-1",
                "requests that it accepts are encrypted: Body, with AES-256-GCM, RSA-OAEP",
                "answers that it sends have a timestamp",
                "answers that it sends are signed: Body, Timestamp, addressing headers, "
                "with X.509 (issuer and serial number), RSA SHA-1",
                "answers that it sends are encrypted: Body, with AES-256-GCM, RSA-OAEP",
                "answers that it sends confirm the signatures of the request",
                "WS-Addressing 1.0 is required",
            ],
        ),
        (
            "WCF, reliable",
            [
                "each message is delivered exactly once and in order by WS-ReliableMessaging 1.0; a sequence ends after "
                "600 s without a message; acknowledgements wait at most 0.2 s",
                "WS-Addressing 1.0 is required",
            ],
        ),
        (
            "WCF, reliable 1.1",
            [
                "each message is delivered exactly once and in order by WS-ReliableMessaging 1.1; a sequence ends after "
                "600 s without a message; acknowledgements wait at most 0.2 s",
                "WS-Addressing 1.0 is required",
            ],
        ),
        (
            "WCF, transport",
            [
                "requests that it accepts come over HTTPS",
                "requests that it accepts have a timestamp",
                "requests that it accepts name a user, with the password as text",
                "answers that it sends come over HTTPS",
                "answers that it sends have a timestamp",
                "WS-Addressing 1.0 is required",
            ],
        ),
        (
            "Metro",
            [
                "requests that it accepts have a timestamp",
                "requests that it accepts name a user, with a digest of the password and nonce and time",
                "requests that it accepts are signed: Body, Timestamp, addressing header To, UsernameToken, "
                f"with {BINARY}, RSA SHA-256",
                "requests that it accepts are encrypted: UsernameToken, with AES-128-CBC, RSA 1.5",
                "answers that it sends have a timestamp",
                "answers that it sends are signed: Body, Timestamp, addressing header To, "
                "with X.509 (binary security token), RSA SHA-256",
                "each message is delivered exactly once and in order by WS-ReliableMessaging 1.1",
                "WS-Addressing 1.0 is required; answers go to the connection of the request",
            ],
        ),
        (
            "gSOAP",
            [
                "requests that it accepts name a user, with a digest of the password and nonce and time",
                "each message is delivered exactly once and in order by WS-ReliableMessaging 1.0; a sequence ends after "
                "60 s without a message; a message is sent again after 3 s, growing; acknowledgements wait at most 0.5 s",
                "WS-Addressing of 2004/08 is required",
            ],
        ),
    ],
)
def test_a_policy_of_a_tool_is_understood_and_described(tool, sentences):
    assert describe_policy(policy_of(tool), is_outgoing=False) == sentences


def test_message_security_of_wcf_is_refused_with_all_that_is_not_implemented():
    assert [line.partition(" ")[2] for line in refused_text(WCF_MESSAGE)] == [
        "sp:Trust10 is not supported",
        "sp:EncryptSignature is not supported",
        "sp:MustSupportRefEncryptedKey is not supported",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_place_of_an_assertion_does_not_depend_on_encoding_and_line_ends(encoding, line_end):
    text = policy("<!-- é -->\n\té é<x:a/>").replace("\n", line_end)
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>{line_end}{text}'
    with pytest.raises(ProgramError) as caught:
        read_policy_text(declared.encode(encoding))
    at = caught.value.at
    assert at is not None
    assert (at.line, at.column, at.text) == (4, 5, "<x:a")


def test_an_outgoing_gateway_sends_what_an_incoming_one_accepts():
    sentences = describe_policy(policy_of("CXF"), is_outgoing=True)
    assert sentences[1] == (
        "requests that it sends are signed: Body, Timestamp, addressing headers, "
        "with X.509 (binary security token), RSA SHA-1"
    )
    assert sentences[3] == "answers that it accepts have a timestamp"


def test_parts_without_a_binding_are_described_with_their_defaults():
    policy = read_policy_text(SIGNED_BODY.encode())
    assert describe_policy(policy, is_outgoing=False) == [
        "requests that it accepts are signed: Body, with X.509, RSA SHA-256 or ECDSA SHA-256",
        "answers that it sends are signed: Body, with X.509 (binary security token), RSA SHA-256 or ECDSA SHA-256",
    ]


def test_a_damaged_policy_is_read_or_refused_with_its_place():
    rng = random.Random(run_seed())
    refused = 0
    for _ in range(DAMAGED):
        text = rng.choice(list(TOOLS.values()))
        names = re.findall(r":(\w+)[ />]", text)
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.6:  # rename an element wherever it is: it stays well-formed
                text = re.sub(rf":{rng.choice(names)}\b", f":{rng.choice(names)}", text)
            else:
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(["", "<", "x", "\u2028", "/", ' a="b"']) + text[at + rng.randint(0, 9) :]
        try:
            read_policy_text(text.encode())
        except etree.XMLSyntaxError:
            continue
        except ProgramError as error:
            refused += 1
            assert all([one.at is not None and one.at.line >= 1 for one in (error, *error.others)])  # noqa: PT017
            assert all([one.code in ("DQ0603", "DQ0608") for one in (error, *error.others)])  # noqa: PT017
    assert refused > DAMAGED // 20
