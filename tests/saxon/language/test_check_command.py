"""`demaq check` says what is wrong, in words or in JSON, and ends with the code that goes with it."""

import json

import pytest

from demaq.cli import main as cli

RULE = "create rule r for q if (//x) then do enqueue <y/> into out"
GOOD = f"create queue q create queue out kind outgoingGateway {RULE}"


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="orders.dmq"):
        (tmp_path / name).write_text(text)
        return name

    return write


def test_an_application_without_problems_takes_one_line(app, capsys):
    assert cli.run(cli.demaq, ["check", app(GOOD)]) == 0

    output = capsys.readouterr()
    assert output.out == "orders.dmq: 2 queues, 0 slicings, 1 rule, no problems\n"
    assert output.err == ""


def test_warnings_do_not_forbid_to_run(app, capsys):
    assert cli.run(cli.demaq, ["check", app(GOOD + "\ncreate queue idle")]) == 0

    output = capsys.readouterr()
    assert output.out == "orders.dmq: 3 queues, 0 slicings, 1 rule, 1 warning\n"
    assert output.err.startswith("warning[DQ1501]: ")
    assert "  orders.dmq:2:14\n     create queue idle\n                  ^^^^\nhint: " in output.err


def test_errors_are_shown_with_their_lines(app, capsys):
    assert cli.run(cli.demaq, ["check", app(GOOD.replace("into out", "into outt"))]) == 1

    output = capsys.readouterr()
    assert output.out == "orders.dmq: 1 error\n"
    assert 'error[DQ0203]: queue "outt" is not defined' in output.err
    assert 'hint: did you mean "out"?' in output.err


def test_a_folder_is_one_application(app, capsys, tmp_path):
    app("create queue q create queue out kind outgoingGateway", "queues.dmq")
    app(RULE, "rules.dmq")

    assert cli.run(cli.demaq, ["check", "."]) == 0
    assert capsys.readouterr().out == ".: 2 queues, 0 slicings, 1 rule, no problems\n"


def test_several_files_are_one_application(app, capsys):
    files = [app("create queue q create queue out kind outgoingGateway", "queues.dmq"), app(RULE, "rules.dmq")]

    assert cli.run(cli.demaq, ["check", *files]) == 0
    assert capsys.readouterr().out == "queues.dmq rules.dmq: 2 queues, 0 slicings, 1 rule, no problems\n"


def test_json_holds_everything_found(app, capsys):
    assert cli.run(cli.demaq, ["check", "--json", app(GOOD + "\ncreate queue idle")]) == 0

    output = capsys.readouterr()
    document = json.loads(output.out)
    assert output.err == ""
    assert (document["queues"], document["rules"], document["errors"], document["warnings"]) == (3, 1, 0, 1)
    (diagnostic,) = document["diagnostics"]
    assert (diagnostic["code"], diagnostic["file"], diagnostic["line"], diagnostic["column"]) == (
        "DQ1501",
        "orders.dmq",
        2,
        14,
    )


def test_json_of_what_is_wrong_exits_with_one(app, capsys):
    assert cli.run(cli.demaq, ["check", "--json", app("create")]) == 1
    assert json.loads(capsys.readouterr().out)["errors"] == 1


def test_a_missing_file_is_the_programs_fault(capsys, tmp_path):
    missing = str(tmp_path / "nowhere.dmq")

    assert cli.run(cli.demaq, ["check", missing]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_checking_nothing_is_wrong_usage(capsys):
    assert cli.run(cli.demaq, ["check"]) == 2
    assert "Missing argument" in capsys.readouterr().err


def test_a_loop_of_links_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.dmq").symlink_to("loop.dmq")

    assert cli.run(cli.demaq, ["check", "loop.dmq"]) == 1
    assert capsys.readouterr().err.startswith("error[DQ0104]: loop.dmq: cannot be read: ")


def test_errors_stand_before_warnings(app, capsys):
    text = "create queue idle\n" + GOOD + "\ncreate rule wrong for q if (/a) then do enqueue <b/> into nowhere"

    assert cli.run(cli.demaq, ["check", app(text)]) == 1
    printed = capsys.readouterr().err
    assert printed.index("error[DQ0203]") < printed.index("warning[DQ1501]")
    assert cli.run(cli.demaq, ["check", "--json", app(text)]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [item["severity"] for item in found] == ["error", "warning"]


MIXED = """create queue q create queue out kind mailbox create queue log kind mailbox
create property n as xs:string queue log value map { "n": //n }?n
create rule native for q if (//x) then do enqueue <y/> into out
create rule other for q if (/m) then
  do enqueue <y>{ map { "a": 1 }?a }</y> into out
create rule logged for q if (/l) then do enqueue <l/> into log"""


def test_performance_lists_what_is_left_to_saxon_with_place_and_hint(app, capsys):
    assert cli.run(cli.demaq, ["check", "--performance", app(MIXED)]) == 0

    output = capsys.readouterr()
    first, *notes, last = output.out.split("\n\n")
    assert first == "orders.dmq: 3 queues, 0 slicings, 3 rules, no problems"
    assert [note.splitlines()[:2] for note in notes] == [
        [
            "note[native.expression]: rule other is left to Saxon because of an expression of the kind “map constructor”",
            "  orders.dmq:5:19",
        ],
        [
            "note[native.expression]: rule logged is left to Saxon because of an expression of the kind “map constructor”"
            " in property n of queue log",
            "  orders.dmq:2:48",
        ],
        [
            "note[native.expression]: properties of queue log are left to Saxon because of an expression of the kind"
            " “map constructor” in property n of queue log",
            "  orders.dmq:2:48",
        ],
    ]
    assert all("\nhint: " in note for note in notes)
    assert last == "1 of 3 rules are native\n"


def test_performance_is_part_of_the_json(app, capsys):
    assert cli.run(cli.demaq, ["check", "--performance", "--json", app(MIXED)]) == 0

    found = json.loads(capsys.readouterr().out)["performance"]
    assert found["native"] == 1
    assert [(each["rule"], each["code"], each["line"], each["column"]) for each in found["leftToSaxon"]] == [
        ("other", "native.expression", 5, 19),
        ("logged", "native.expression", 2, 48),
    ]
    assert [each["queue"] for each in found["propertiesLeftToSaxon"]] == ["log"]
    assert all(each["hint"] and each["file"] == "orders.dmq" for each in found["leftToSaxon"])


def test_an_application_with_errors_has_no_performance(app, capsys):
    assert cli.run(cli.demaq, ["check", "--performance", app("create queue q create rule r for z if (1) then ()")]) == 1
    assert "native" not in capsys.readouterr().out


def test_explain_says_of_each_rule_how_it_is_evaluated(app, capsys):
    assert cli.run(cli.demaq, ["explain", "--json", app(MIXED)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert {rule["rule"]: rule["native"] for rule in found["rules"]} == {
        "native": True,
        "other": False,
        "logged": False,
    }
    [reason] = [rule["leftToSaxon"] for rule in found["rules"] if rule["rule"] == "other"]
    assert (reason["code"], reason["file"], reason["line"], reason["column"]) == (
        "native.expression",
        "orders.dmq",
        5,
        19,
    )
    assert {queue["queue"]: queue["leftToSaxon"] for queue in found["queues"]}["q"] == ["other", "logged"]
    assert cli.run(cli.demaq, ["explain", "--queue", "q", "orders.dmq"]) == 0
    assert "\n  native but for other, logged\n" in capsys.readouterr().out
    assert cli.run(cli.demaq, ["explain", "--rule", "native", "orders.dmq"]) == 0
    assert capsys.readouterr().out.endswith("  evaluated      natively\n")
