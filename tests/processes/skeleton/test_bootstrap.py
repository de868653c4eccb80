"""./demaq and ./test install once, notice changes, survive interruption. A fake Python stands in for pip."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Writes down how it is called. `-m venv` makes a .venv with itself in it; the real Python takes the lock.
FAKE_PYTHON = f"""#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo venv >>"$CALLS" ;;
"-m pip")
    echo "pip $*" >>"$CALLS"
    echo "output of pip"
    sleep "${{PIP_SECONDS:-0}}"
    exit "${{PIP_EXIT:-0}}"
    ;;
"-P -m" | "-m pytest" | "-m tests."*) echo "$PWD: $*" ;;
"- ") exec {shlex.quote(sys.executable)} - ;;
"--version ") echo Python 3.11.0 ;;
esac
"""


@dataclass(frozen=True)
class FakeProject:
    folder: Path
    environment: dict[str, str]

    def start(self, *command: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=cwd or self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, cwd: Path | None = None, **environment: str) -> tuple[int, str, str]:
        with self.start(*command, cwd=cwd, **environment) as process:
            stdout, stderr = process.communicate(timeout=30)
        return process.returncode, stdout, stderr

    def calls(self) -> list[str]:
        """What was asked of Python since the last look."""
        path = Path(self.environment["CALLS"])
        calls = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return calls


@pytest.fixture
def project(tmp_path: Path) -> FakeProject:
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    for name in ("demaq", "test", "scripts/bootstrap.sh"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("pyproject.toml", "requirements-build.lock", "requirements.lock", "requirements-test.lock"):
        (folder / name).write_text(name)
    programs = tmp_path / "bin"
    programs.mkdir()
    _write_program(programs / "python3", FAKE_PYTHON)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return FakeProject(folder, {"PATH": path, "CALLS": str(tmp_path / "calls")})


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_first_call_installs_from_the_lock_and_says_so_on_stderr(project):
    exit_code, stdout, stderr = project.run("./demaq", "check", "orders.dmq")

    assert exit_code == 0
    assert stdout == f"{project.folder}: -P -m demaq.cli check orders.dmq\n"
    assert stderr.count("\n") == 2
    made, builders, from_lock, editable = project.calls()
    assert made == "venv"
    assert "--require-hashes" in builders
    assert builders.endswith("/requirements-build.lock")
    assert "--require-hashes" in from_lock
    assert from_lock.endswith("/requirements.lock")
    assert "--no-deps" in editable
    assert editable.endswith(f"--editable {project.folder}")


def test_the_second_call_installs_nothing_and_says_nothing(project):
    project.run("./demaq")
    project.calls()

    exit_code, _, stderr = project.run("./demaq")

    assert (exit_code, stderr) == (0, "")
    assert project.calls() == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements-build.lock", "requirements.lock"])
def test_a_changed_file_is_noticed(project, changed):
    project.run("./demaq")
    project.calls()
    (project.folder / changed).write_text("something else")

    project.run("./demaq")

    assert [call.split()[0] for call in project.calls()] == ["pip", "pip", "pip"]


def test_a_changed_test_lock_concerns_only_the_tests(project):
    project.run("./test")
    project.calls()
    (project.folder / "requirements-test.lock").write_text("something else")

    project.run("./demaq")
    assert project.calls() == []
    project.run("./test")
    assert project.calls() != []


def test_an_installation_for_tests_has_all_that_demaq_needs(project):
    project.run("./test")
    assert any(call.endswith("/requirements-test.lock") for call in project.calls())

    project.run("./demaq")

    assert project.calls() == []


def test_a_moved_folder_is_installed_again(project, tmp_path):
    project.run("./demaq")
    project.calls()
    project.folder.rename(tmp_path / "moved")

    project.run("./demaq", cwd=tmp_path / "moved")

    assert project.calls()[-1].endswith(f"--editable {tmp_path / 'moved'}")


def test_a_failed_installation_shows_its_output_and_is_done_again(project):
    exit_code, stdout, stderr = project.run("./demaq", PIP_EXIT="1")

    assert (exit_code, stdout) == (1, "")
    assert "output of pip" in stderr
    assert stderr.splitlines()[-1].startswith("demaq: could not be installed")
    project.calls()

    exit_code, _, _ = project.run("./demaq")

    assert exit_code == 0
    assert project.calls()[0] == "venv", "starts from nothing"


def test_two_calls_at_once_install_once(project):
    calls = [project.start("./demaq", PIP_SECONDS="0.2") for _ in range(2)]

    for call in calls:
        call.communicate(timeout=30)
        assert call.returncode == 0
    assert len(project.calls()) == 4


def test_a_call_through_a_symlink_stays_in_the_folder_of_its_caller(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dq").symlink_to(project.folder / "demaq")

    exit_code, stdout, _ = project.run("./dq", "check", "an order.dmq", cwd=elsewhere)

    assert (exit_code, stdout) == (0, f"{elsewhere}: -P -m demaq.cli check an order.dmq\n")


def test_without_a_new_enough_python_there_is_one_line_about_it(project, tmp_path):
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        _write_program(tmp_path / "bin" / name, "#!/bin/sh\nexit 1\n")

    exit_code, stdout, stderr = project.run("./demaq")

    assert (exit_code, stdout) == (1, "")
    assert stderr == "demaq: needs Python 3.11 or newer, and found none on the PATH\n"


@pytest.mark.parametrize(
    ("arguments", "parallel", "slow_too"),
    [
        ([], True, False),
        (["-x"], True, False),
        (["--all"], True, True),
        (["-k", "version"], True, True),
        (["-n", "0"], False, False),
        (["--pdb"], False, False),
        (["scripts"], False, True),
    ],
)
def test_all_quick_tests_run_in_parallel_unless_the_arguments_say_otherwise(
    project, tmp_path, arguments, parallel, slow_too
):
    _, stdout, _ = project.run(str(project.folder / "test"), *arguments, cwd=tmp_path)

    options = "-n auto --maxprocesses 4 --dist loadscope " if parallel else ""
    chosen = "" if slow_too else "-m not slow "
    words = " ".join([word for word in arguments if word != "--all"])
    assert stdout.rstrip() == f"{project.folder}: -m pytest {options}{chosen}{words}".rstrip()


@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        (["--unit"], "-m pytest -n auto --maxprocesses 4 --dist loadscope -m not slow tests/unit"),
        (["--coverage", "--all"], "-m tests.coverage_run -n auto --maxprocesses 4 --dist loadscope"),
        (["--coverage", "--some"], "-m tests.coverage_run -n auto --maxprocesses 4 --dist loadscope"),
        (["--some"], "-m pytest -n auto --maxprocesses 4 --dist loadscope"),
        (["--coverage", "-n", "0"], "-m tests.coverage_run -m not slow -n 0"),
        (["--unit", "-n", "0"], "-m pytest -m not slow tests/unit -n 0"),
        (["--long", "2"], "-m tests.long_run 2"),
        (["--fuzz", "3"], "-m tests.fuzz.run 3"),
    ],
)
def test_the_first_argument_says_what_is_run(project, tmp_path, arguments, run):
    _, stdout, _ = project.run(str(project.folder / "test"), *arguments, cwd=tmp_path)

    assert stdout.rstrip() == f"{project.folder}: {run}"


def test_help_says_how_to_call_it_and_installs_nothing(project):
    exit_code, stdout, stderr = project.run(str(project.folder / "test"), "--help")

    assert (exit_code, stderr) == (0, "")
    assert stdout.startswith("Run the tests.")
    assert "./test --unit" in stdout
    assert "set -eu" not in stdout
    assert project.calls() == []
