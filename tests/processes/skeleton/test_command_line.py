"""The manners of the command line, whatever the command."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from demaq import __version__
from demaq.cli import main as cli
from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup, LazyCommand
from demaq.files import name_in_errors
from tests.support.processes import started

SHOUT_MODULE = """
import click
from demaq.cli.command_classes import ExampleFirst

@click.command(cls=ExampleFirst, example="$ demaq shout hello")
@click.argument("word")
def shout(word):
    \"\"\"Say a word loudly.\"\"\"
    click.echo(word.upper())
"""


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A group with one command, whose module is imported when it runs."""
    (tmp_path / "shout_module.py").write_text(SHOUT_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shout_module", raising=False)
    group = ExampleFirstGroup("demaq", example="$ demaq shout hello")
    shout = LazyCommand(name="shout", location="shout_module:shout", short_help="Say a word loudly.")
    group.add_command(shout)
    return group


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def command_that(action):
    return click.Command("act", callback=action)


def test_the_version_goes_to_stdout():
    done = run_python("-m", "demaq.cli", "--version")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"demaq {__version__}\n", "")


def test_an_unknown_command_is_wrong_usage(capsys):
    assert cli.run(cli.demaq, ["no-such-command"]) == 2

    output = capsys.readouterr()
    assert output.out == ""
    assert "no-such-command" in output.err


def test_help_lists_a_command_without_importing_it(group, capsys):
    assert cli.run(group, ["--help"]) == 0

    assert "shout  Say a word loudly." in capsys.readouterr().out
    assert "shout_module" not in sys.modules


def test_a_listed_command_runs(group, capsys):
    assert cli.run(group, ["shout", "hello"]) == 0

    assert capsys.readouterr().out == "HELLO\n"


def test_a_mistyped_command_is_wrong_usage(group):
    assert cli.run(group, ["shuot", "hello"]) == 2


def test_help_shows_an_example_first(group, capsys):
    cli.run(group, ["shout", "--help"])

    example, usage = capsys.readouterr().out.split("\n\n")[:2]
    assert example == "Example:\n  $ demaq shout hello"
    assert usage.startswith("Usage: demaq shout [OPTIONS] WORD")


def test_every_command_is_at_its_place_and_describes_itself_as_in_the_table():
    for name, (location, short_help) in cli.COMMANDS.items():
        command = LazyCommand(name=name, location=location, short_help=short_help).load()
        assert isinstance(command, ExampleFirst)
        assert command.name == name
        assert command.get_short_help_str(limit=200).rstrip(".") == short_help.rstrip(".")


def test_help_lists_every_command_once_under_what_it_is_for(capsys):
    listed = [name for names in cli.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(cli.COMMANDS)

    assert cli.run(cli.demaq, ["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for title, names in cli.SECTIONS.items():
        section = lines[lines.index(f"{title}:") + 1 :]
        section = section[: section.index("")] if "" in section else section
        assert [line.split()[0] for line in section if not line.startswith("    ")] == list(names)


def test_starting_up_imports_neither_saxon_nor_lxml():
    done = run_python("-c", "import sys, demaq.cli.main; print(sys.modules.keys() & {'saxonche', 'lxml'})")

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(("answer", "exit_code"), [(None, 0), (0, 0), (1, 1)])
def test_what_a_command_returns_is_its_exit_code(answer, exit_code):
    assert cli.run(command_that(lambda: answer), []) == exit_code


def test_an_unreadable_file_is_one_line_and_exit_1(tmp_path, capsys):
    path = tmp_path / "missing.dmq"

    assert cli.run(command_that(path.read_text), []) == 1

    assert capsys.readouterr().err == f"demaq: {path}: No such file or directory\n"


def test_a_file_that_has_no_room_is_named(tmp_path, capsys):
    path = tmp_path / "export" / "12.xml"

    def write() -> None:
        with name_in_errors(path), Path("/dev/full").open("w") as full:
            full.write("too much")

    assert cli.run(command_that(write), []) == 1
    assert capsys.readouterr().err == f"demaq: {path}: No space left on device\n"


def test_results_that_have_no_room_are_one_line_that_says_so(tmp_path):
    program = tmp_path / "empty.dmq"
    program.write_text("create queue q", encoding="utf-8")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "demaq.cli", "format", str(program)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "demaq: standard output: No space left on device\n"
    assert done.returncode == 1


def test_a_mistake_of_ours_stays_loud():
    with pytest.raises(ZeroDivisionError):
        cli.run(command_that(lambda: 1 // 0), [])


WRITES_WITHOUT_END = """
import sys, click
from demaq.cli import main as cli

def write():
    while True:
        print("line")

sys.exit(cli.run(click.Command("write", callback=write), []))
"""

WRITES_LITTLE = WRITES_WITHOUT_END.replace("while True", "for _ in range(2)")


@pytest.mark.parametrize("program", [WRITES_WITHOUT_END, WRITES_LITTLE])
def test_a_reader_who_leaves_is_no_traceback(tmp_path: Path, program):
    (tmp_path / "write.py").write_text(program)
    command = [sys.executable, str(tmp_path / "write.py")]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, stderr = process.communicate(timeout=30)

    assert (process.returncode, stderr) == (141, "")


WAITS = """
import signal, sys, time, click
from demaq.cli import main as cli

def wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    print("waiting", flush=True)
    time.sleep(30)

sys.exit(cli.run(click.Command("wait", callback=wait), []))
"""


def test_an_interrupt_ends_quietly_with_130():
    command = [sys.executable, "-c", WAITS]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)

    assert (process.returncode, stderr) == (130, "")


def test_a_command_with_closed_streams_shows_no_traceback(tmp_path: Path):
    command = f"{shlex.quote(sys.executable)} -m demaq.cli check {shlex.quote(str(tmp_path))} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("error[DQ0104]: ")
