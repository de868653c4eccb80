"""What `import demaq` offers: few names, imported when they are needed, with verbs for what they do."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import demaq
from demaq.errors import DemaqError, ProgramError

FACE = ["IncomingMessage", "Lab", "Message", "Node", "__version__", "errors", "load_program", "spark", "testing"]
VERBS = {
    *("advance", "append", "attach", "close", "collect", "crash", "enqueue", "explain", "hurry", "load", "look"),
    *("note", "pause", "purge", "read", "record", "redeliver", "register", "resume", "run", "start", "step", "stop"),
    *("subscribe", "take", "wait", "watch"),
}
"""What a function may begin with. A new one belongs here if it is a verb in the imperative."""
ALIASES = {
    demaq.Lab: {
        "messages": "read_queue",
        "stored": "read_stored",
        "made": "read_created",
        "slice": "read_slice",
        "why": "explain_message",
    },
    demaq.Node: {"status": "read_status"},
}
"""Named after what they return, for assertions: `assert lab.messages("out") == []`."""


def methods(cls: type) -> list[str]:
    functions = [name for name, member in vars(cls).items() if inspect.isfunction(member) and not name.startswith("_")]
    return [name for name in functions if name not in ALIASES.get(cls, {})]


def test_the_package_shows_its_public_names_and_nothing_else():
    assert dir(demaq) == sorted(demaq.__all__) == FACE
    for name in demaq.__all__:
        assert getattr(demaq, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nodes'"):
        _ = demaq.Nodes


def test_functions_of_the_face_are_verbs():
    functions = [*methods(demaq.Node), *methods(demaq.Lab), "load_program", *demaq.spark.__all__]

    assert len(functions) > 20
    assert [name for name in functions if name.split("_")[0] not in VERBS] == []


def test_some_functions_have_a_second_name():
    for cls, aliases in ALIASES.items():
        assert {name: getattr(cls, name) for name in aliases} == {n: getattr(cls, f) for n, f in aliases.items()}


def test_the_face_is_documented():
    public = [demaq.Node, demaq.Lab, demaq.Message, demaq.IncomingMessage, demaq.load_program, demaq.spark.register]
    public += [getattr(cls, name) for cls in (demaq.Node, demaq.Lab) for name in methods(cls)]
    public += [item for item in vars(demaq.errors).values() if isinstance(item, type) and issubclass(item, DemaqError)]

    assert [item for item in public if not inspect.getdoc(item)] == []


def test_a_public_name_is_imported_when_it_is_used():
    program = "import demaq, sys; print('saxonche' in sys.modules, demaq.errors.StoreError.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "False StoreError\n"


def test_a_program_is_loaded_from_files_and_folders(tmp_path: Path):
    (tmp_path / "a.dmq").write_text("create queue a")
    (tmp_path / "b.dmq").write_text("create queue b")

    assert {"a", "b"} <= set(demaq.load_program(tmp_path).queues)
    assert {"a", "b"} <= set(demaq.load_program([tmp_path / "a.dmq", str(tmp_path / "b.dmq")]).queues)


def test_all_mistakes_of_a_program_are_raised_at_once(tmp_path: Path):
    file = tmp_path / "wrong.dmq"
    file.write_text(
        "create queue a\ncreate rule r for b if (/x) then do enqueue <x/> into a\ncreate rule s for c if (/x) then do enqueue <x/> into a"
    )
    with pytest.raises(ProgramError) as caught:
        demaq.load_program(file)

    errors = [caught.value, *caught.value.others]
    assert [(error.code, error.at.line) for error in errors if error.at is not None] == [("DQ0204", 2), ("DQ0204", 3)]


def test_a_node_on_a_folder_loads_no_library_that_it_does_not_need():
    program = (
        "import sys, demaq.cli.run, demaq.evaluation.workers.worker\n"
        "print([name for name in ('psycopg', 'pyspark', 'pyarrow', 'xmlsec', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
