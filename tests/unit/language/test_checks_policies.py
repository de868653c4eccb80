"""`check` reads the policies of gateways, and `explain` says what they demand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.errors import ProgramError
from demaq.language.gateway_policies import collect_published_policies, read_gateway_policy
from demaq.soap.policy.gateway_policy import DEFAULT_RELIABILITY
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER
from tests.support.language.checking import check, found
from tests.support.soap.policies import RELIABLE, SIGNED_BODY, declare, nested, policy, suite, transport
from tests.support.soap.wsdls import document_wsdl

RELIABLE_OTHERWISE = RELIABLE.replace("<wsrmp:InOrder/>", "")


def attach(text: str) -> str:
    """Return a WSDL whose binding has a policy."""
    inside = text[text.index("\n") : text.rindex("</")]
    wsdl = document_wsdl().replace("xmlns:t=", f"{declare()} xmlns:t=")
    return wsdl.replace("<soap:binding ", f"<wsp:Policy>{inside}</wsp:Policy><soap:binding ")


FILES = {
    "signed.xml": SIGNED_BODY,
    "reliable.xml": RELIABLE,
    "unordered.xml": RELIABLE_OTHERWISE,
    "both.xml": RELIABLE.replace("\n<wsrmp", "\n<sp:SignedParts><sp:Body/></sp:SignedParts><wsrmp", 1),
    "addressed.xml": policy(f"<sp:SignedParts><sp:Body/></sp:SignedParts>{nested('wsam:Addressing')}"),
    "old.xml": RELIABLE.replace(
        "\n<wsrmp", '\n<a:UsingAddressing xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing/policy"/><wsrmp', 1
    ),
    "empty.xml": policy(""),
    "symmetric.xml": policy("  <sp:SymmetricBinding/>\n <x:b/>"),
    "plain.xml": "<plain/>",
    "broken.xml": "<broken>",
    "typed.xml": "<!DOCTYPE a><a/>",
    "shop.wsdl": document_wsdl(),
    "signed.wsdl": attach(SIGNED_BODY),
    "reliable.wsdl": attach(RELIABLE),
    "https.wsdl": attach(policy(transport(suite()))),
    "symmetric.wsdl": attach(policy("<sp:SymmetricBinding/>")),
}


def problems(folder: Path, clauses: str, kind: str = "outgoingGateway") -> list[str]:
    """Return what `check` says of a gateway with these clauses, without its warning that it is not started."""
    checked = check(folder, f"create queue c kind {kind} {clauses}", FILES)
    said = [item for item in checked.diagnostics if item.code not in ("DQ1505", "DQ1501")]
    return [
        f"{item.code} {Path(item.at.file).name}:{item.at.line}:{item.at.column} {item.message}"
        for item in said
        if item.at
    ]


@pytest.mark.parametrize(
    "clauses",
    [
        "using WS-Security policy signed.xml",
        "using WS-ReliableMessaging",
        "using WS-ReliableMessaging policy reliable.xml using WS-Security policy signed.xml",
        "interface signed.wsdl using WS-Security",
        "interface signed.wsdl using WS-Security policy signed.xml",
        "interface reliable.wsdl using WS-ReliableMessaging policy reliable.xml",
        "interface shop.wsdl using WS-Security policy signed.xml",
        "interface https.wsdl",
        "interface https.wsdl using WS-Security",
    ],
)
@pytest.mark.parametrize("kind", ["incomingGateway", "outgoingGateway"])
def test_policies_that_are_implemented_are_no_problem(tmp_path, clauses, kind):
    assert problems(tmp_path, clauses, kind) == []


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "using WS-Security policy nope.xml",
            ["DQ0603 app.dmq:1:62 policy nope.xml cannot be used: No such file or directory"],
        ),
        (
            "using WS-Security policy plain.xml",
            ["DQ0603 plain.xml:1:1 plain is no policy"],
        ),
        (
            "using WS-Security policy typed.xml",
            ["DQ0603 typed.xml:1:1 a document type declaration is not allowed"],
        ),
        (
            "using WS-Security policy symmetric.xml",
            [
                "DQ0608 symmetric.xml:2:3 sp:SymmetricBinding is not supported",
                "DQ0608 symmetric.xml:3:2 x:b is not supported",
            ],
        ),
        (
            "using WS-ReliableMessaging policy signed.xml",
            ["DQ0609 signed.xml:1:1 the policy of WS-ReliableMessaging has assertions of WS-Security"],
        ),
        (
            "using WS-Security policy both.xml",
            ["DQ0609 both.xml:1:1 the policy of WS-Security has assertions of WS-ReliableMessaging"],
        ),
        ("using WS-Security policy empty.xml", ["DQ0609 empty.xml:1:1 wsp:Policy asks for nothing of WS-Security"]),
        (
            "interface reliable.wsdl using WS-ReliableMessaging policy unordered.xml",
            ["DQ0609 app.dmq:1:95 the policy of WS-ReliableMessaging is not that of the interface"],
        ),
        (
            "using WS-Security policy addressed.xml using WS-ReliableMessaging policy old.xml",
            [
                "DQ0609 app.dmq:1:110 the policy of WS-ReliableMessaging is of another version of WS-Addressing than "
                "another policy of the gateway"
            ],
        ),
        (
            "interface reliable.wsdl using WS-Security",
            [
                "DQ0511 app.dmq:1:61 WS-Security needs a policy, which says what is signed and encrypted",
                'DQ1507 app.dmq:1:47 gateway "c" is run without WS-ReliableMessaging, which reliable.wsdl asks for',
            ],
        ),
        (
            "interface symmetric.wsdl using WS-Security",
            ["DQ0608 symmetric.wsdl:{} sp:SymmetricBinding is not supported"],
        ),
    ],
)
def test_a_policy_that_cannot_be_used_is_an_error_with_its_place(tmp_path, clauses, expected):
    before = FILES["symmetric.wsdl"].partition("<sp:Symm")[0]
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rindex(chr(10))}"
    assert problems(tmp_path, clauses) == [line.format(place) for line in expected]


def test_a_policy_that_is_not_well_formed_says_where(tmp_path):
    (said,) = problems(tmp_path, "using WS-Security policy broken.xml")
    assert said.startswith("DQ0603 app.dmq:1:62 policy broken.xml cannot be used: ")
    assert "line 1, column 9" in said


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        ("signed.wsdl", 'gateway "c" is run without WS-Security, which signed.wsdl asks for'),
        ("reliable.wsdl", 'gateway "c" is run without WS-ReliableMessaging, which reliable.wsdl asks for'),
    ],
)
def test_a_policy_of_the_interface_that_is_not_applied_is_warned_of(tmp_path, interface, words):
    assert problems(tmp_path, f"interface {interface}") == [f"DQ1507 app.dmq:1:47 {words}"]


def test_a_policy_of_the_interface_that_is_neither_applied_nor_implemented_is_warned_of(tmp_path):
    (said,) = problems(tmp_path, "interface symmetric.wsdl")
    assert said.startswith("DQ1507 app.dmq:1:47 the policy of symmetric.wsdl is not applied, and cannot be: ")
    assert said.endswith("sp:SymmetricBinding is not supported")


def test_a_gateway_with_a_policy_and_without_an_interface_is_not_started(tmp_path):
    checked = check(tmp_path, "create queue c kind outgoingGateway ¦using WS-Security policy signed.xml", FILES)
    assert ("DQ1505", "1:37") in found(checked.warnings)


def test_a_program_has_the_policies_of_its_gateways(tmp_path):
    program = check(tmp_path, "create queue c kind outgoingGateway using WS-ReliableMessaging", FILES).program
    assert program is not None
    gateway = program.queues["c"].gateway
    assert gateway is not None
    policy_ = read_gateway_policy(gateway)
    assert policy_.reliability == DEFAULT_RELIABILITY
    assert (DEFAULT_RELIABILITY.version.name, DEFAULT_RELIABILITY.assurance) == ("1.1", EXACTLY_ONCE_IN_ORDER)
    assert policy_.security is None


@pytest.mark.parametrize(
    ("clauses", "names"),
    [
        ("interface shop.wsdl", []),
        ("interface shop.wsdl using WS-ReliableMessaging", ["WS-ReliableMessaging"]),
        (
            "interface shop.wsdl using WS-Security policy signed.xml using WS-ReliableMessaging policy reliable.xml",
            ["WS-Security", "WS-ReliableMessaging"],
        ),
        ("interface signed.wsdl using WS-Security policy signed.xml", []),
        ("using WS-Security policy signed.xml", []),
    ],
)
def test_a_gateway_has_policies_to_publish_that_its_interface_has_not(tmp_path, clauses, names):
    program = check(tmp_path, f"create queue c kind incomingGateway {clauses}", FILES).program
    assert program is not None
    gateway = program.queues["c"].gateway
    assert gateway is not None
    assert [one.name for one in collect_published_policies(gateway).attached] == names


def test_the_command_line_checks_and_explains_policies(tmp_path, capsys):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    application = tmp_path / "a.dmq"
    application.write_text(
        "create queue c kind outgoingGateway interface signed.wsdl using WS-Security using WS-ReliableMessaging"
        " create queue d kind outgoingGateway using WS-Security policy symmetric.xml"
    )
    assert cli.run(cli.demaq, ["check", str(application)]) == 1
    said = capsys.readouterr()
    assert (
        f"{tmp_path / 'symmetric.xml'}:2:3\n     <sp:SymmetricBinding/>\n     ^^^^^^^^^^^^^^^^^^^^"
        in said.out + said.err
    )

    application.write_text(application.read_text().partition(" create queue d")[0])
    assert cli.run(cli.demaq, ["explain", str(application)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "queue c (outgoingGateway, persistent)",
        "  requests that it sends are signed: Body, with X.509 (binary security token), RSA SHA-256 or ECDSA SHA-256",
        "  answers that it accepts are signed: Body, with X.509, RSA SHA-256 or ECDSA SHA-256",
        "  each message is delivered exactly once and in order by WS-ReliableMessaging 1.1",
        "  WS-Addressing 1.0 is required",
        "  no rule: messages are sent",
    ]
    assert cli.run(cli.demaq, ["explain", "--json", str(application)]) == 0
    (queue,) = [one for one in json.loads(capsys.readouterr().out)["queues"] if one["queue"] == "c"]
    assert len(queue["policy"]) == 4


def test_a_file_that_is_gone_since_it_was_checked_is_an_error(tmp_path):
    program = check(tmp_path, "create queue c kind outgoingGateway using WS-Security policy signed.xml", FILES).program
    assert program is not None
    gateway = program.queues["c"].gateway
    assert gateway is not None
    (tmp_path / "signed.xml").unlink()
    with pytest.raises((OSError, ProgramError)):
        read_gateway_policy(gateway)
