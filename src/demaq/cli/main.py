"""Run the command asked for, and end with the exit code its outcome deserves.

Results go to stdout, talk to stderr. Exit 0 done, 1 the program or its messages are at fault, 2 wrong usage.
A command may return its exit code; returning nothing means done.
"""

import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TextIO

import click

from demaq._version import __version__
from demaq.cli.command_classes import ExampleFirstGroup, LazyCommand
from demaq.errors import MessageError, OperatorError, ProgramError
from demaq.evaluation.workers.bare_worker import launch_ahead
from demaq.language.diagnostics import Diagnostic
from demaq.log_format import is_logged_as_json, log_line
from demaq.server.startup import announce, store_in

# Name -> (module:function, what `demaq --help` says). A module is imported only when its command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("demaq.cli.check:check", "Check the files of an application, or the folders that hold them."),
    "explain": ("demaq.cli.explain:explain", "Show how an application will be executed."),
    "graph": (
        "demaq.cli.graph:graph",
        "Draw the flow of an application: queues, rules, slicings, gateways and timers, as SVG.",
    ),
    "format": ("demaq.cli.format:format", "Print an application in one canonical layout, keeping its comments."),
    "try": ("demaq.cli.try_message:try_message", "Show which rules fire on a message and what they would do."),
    "init": ("demaq.cli.init:init", "Make a store for an application, and run nothing."),
    "run": ("demaq.cli.run:run", "Run an application on a store until it is stopped."),
    "send": ("demaq.cli.send:send", "Put messages into a queue."),
    "load": ("demaq.cli.load:load", "Put many documents into a queue, checked on Spark."),
    "replay": ("demaq.cli.replay:replay", "Run stored or failed messages again."),
    "backfill": (
        "demaq.cli.backfill:backfill",
        "Compute what a changed application needs to know of stored messages.",
    ),
    "export": ("demaq.cli.export:export", "Write the messages of a queue into a folder."),
    "take": ("demaq.cli.take:take", "Take the oldest messages of a queue that no rule pertains to."),
    "search": ("demaq.cli.search:search", "Find messages that meet all conditions, oldest first."),
    "pause": ("demaq.cli.pause:pause", "Let the messages of a queue, a rule or a gateway wait."),
    "resume": ("demaq.cli.resume:resume", "Go on with a queue, a rule or a gateway that was paused."),
    "purge": ("demaq.cli.purge:purge", "Remove messages for good, whatever their state."),
    "requeue": (
        "demaq.cli.requeue:requeue",
        "Put the messages that errors are about into their queues again, after what was wrong is repaired.",
    ),
    "audit": ("demaq.cli.audit:audit", "List what operators have done, newest first."),
    "messages": ("demaq.cli.messages:messages", "List the messages of a queue, oldest first."),
    "show": ("demaq.cli.show:show", "Show a message: body, properties, what caused it, what it caused."),
    "why": (
        "demaq.cli.why:why",
        "Show what became of a message: which of its rules fired, and why the others did not.",
    ),
    "trace": (
        "demaq.cli.trace:trace",
        "Show the conversation of a message: what caused it, and all that followed, as a tree.",
    ),
    "queues": (
        "demaq.cli.queues:queues",
        "List the queues that hold messages, with how many, and how many of them wait to be processed.",
    ),
    "slices": (
        "demaq.cli.slices:slices",
        "List the keys of a slicing with how many messages each slice holds; with KEY, the messages of that slice.",
    ),
    "errors": ("demaq.cli.errors:errors", "List the messages of error queues, oldest first."),
    "timers": (
        "demaq.cli.timers:timers",
        "List the messages of echo queues that have not come back yet, the next one first.",
    ),
    "deliveries": ("demaq.cli.deliveries:deliveries", "Show what became of messages of outgoing gateways."),
    "sequences": (
        "demaq.cli.sequences:sequences",
        "Show the sequences of WS-ReliableMessaging: their state, and what is received or acknowledged.",
    ),
    "redeliver": (
        "demaq.cli.redeliver:redeliver",
        "Send messages of outgoing gateways again, whatever became of them.",
    ),
    "collections": ("demaq.cli.collections:collections", "Load and list the collections that rules read."),
    "status": ("demaq.cli.status:status", "Show what a running node is doing."),
    "gc": ("demaq.cli.gc:gc", "Remove messages that are done with, now."),
    "verify": (
        "demaq.cli.verify:verify",
        "Verify a store: every row by its checksum, and that nothing acknowledged is missing.",
    ),
    "backup": ("demaq.cli.backup:backup", "Back a store up into a new folder: all of it, as it is at one moment."),
    "restore": ("demaq.cli.restore:restore", "Make a store of a backup, where there is none yet."),
    "console": ("demaq.cli.console:console", "Serve the console of a store until it is stopped."),
    "tokens": ("demaq.cli.tokens:tokens", "Add, list and remove tokens with which others may send."),
    "users": ("demaq.cli.users:users", "Add, list and remove users who may send with a password."),
    "test": ("demaq.cli.test_application:test_application", "Run the scenarios of an application."),
    "record": (
        "demaq.cli.record:record",
        "Make a scenario of real traffic, for `demaq test`: what came in, when, and what it led to.",
    ),
    "schema": ("demaq.cli.schema:schema", "Print a schema that Demaq publishes."),
}
CLONE_COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demaq_bench.commands.demo:demo", "Process requests for offers on Spark and check every answer."),
    "bench": ("demaq_bench.commands.bench:bench", "Measure a node and hand-written code."),
}
"""What a clone of the project has besides: measuring is no part of the package that is installed."""
if find_spec("demaq_bench") is not None:
    COMMANDS |= CLONE_COMMANDS

SECTIONS: dict[str, tuple[str, ...]] = {
    "Make an application": ("check", "explain", "graph", "format", "try", "test", "record", "schema"),
    "Run it": ("init", "run", "backfill", "verify", "backup", "restore", "tokens", "users"),
    "Look at what is there": (
        "console",
        "status",
        "queues",
        "search",
        "messages",
        "show",
        "why",
        "trace",
        "slices",
        "errors",
        "timers",
        "deliveries",
        "sequences",
        "audit",
        "export",
    ),
    "Act on it": (
        *("send", "load", "take", "pause", "resume", "requeue", "replay", "redeliver", "purge", "collections", "gc"),
    ),
    "Measure": ("demo", "bench"),
}
"""How `demaq --help` lists them."""

WORKERS_AHEAD = 2
"""A node has one worker process for rules and one for messages from outside from its start."""
EXIT_DONE = 0
EXIT_AT_FAULT = 1
EXIT_INTERRUPTED = 130  # what a shell reports for SIGINT
EXIT_READER_GONE = 141  # what a shell reports for SIGPIPE


@click.group(name="demaq", cls=ExampleFirstGroup, example="$ demaq check orders.dmq", sections=SECTIONS)
@click.version_option(__version__, message="%(prog)s %(version)s")
def demaq() -> None:
    """Declarative XML message processing."""


for name, (location, short_help) in COMMANDS.items():
    demaq.add_command(LazyCommand(name=name, location=location, short_help=short_help))


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    _expect_utf8()
    # A process that was started with one of them closed has None there.
    sys.stdout = sys.stdout or _open_null()
    sys.stderr = sys.stderr or _open_null()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may be anything
    if sys.argv[1:2] == ["run"]:  # before it imports what it needs, which takes a second: others may be asking for it
        _end_when_interrupted()
        announce(store_in(sys.argv[2:]))
        if "--help" not in sys.argv:
            launch_ahead(WORKERS_AHEAD)
    sys.exit(run(demaq, sys.argv[1:]))


def _end_when_interrupted() -> None:
    """Let Ctrl-C end this process at once, until the node is there and handles it.

    As an exception it could be raised in a callback of the interpreter, such as one of an import, which drops it. There
    is nothing to clean up yet: a store survives that at any moment, and worker processes end with this one.
    """
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(EXIT_INTERRUPTED))


def run(command: click.Command, args: Sequence[str]) -> int:
    """Run a command. Return its exit code.

    Not left to click's own `main`: there a reader who stops reading (`demaq ... | head`) counts as a failure,
    an interrupt exits 1, and an unreadable file is a traceback.
    """
    try:
        exit_code = _invoke(command, args)
        sys.stdout.flush()  # here, where a reader who has left can still be noticed
        return exit_code
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        _say(error.format_message())
        return error.exit_code
    except BrokenPipeError:
        _discard_further_output()
        return EXIT_READER_GONE
    except OSError as error:
        _say(_one_line(error))
        return EXIT_AT_FAULT
    except OperatorError as error:
        _say(str(error))
        return EXIT_AT_FAULT
    except MessageError as error:
        _say(error.message)
        return EXIT_AT_FAULT
    except ProgramError as error:
        text = "\n\n".join([Diagnostic.of(item).render() for item in (error, *error.others)])
        if is_logged_as_json():
            _say(text)
        else:
            click.echo(text, err=True)
        return EXIT_AT_FAULT
    except UnicodeEncodeError as error:
        _say(f"{error.object!r} is not UTF-8")
        return EXIT_AT_FAULT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except click.Abort:
        return EXIT_AT_FAULT


def _expect_utf8() -> None:
    """Begin anew in Python's UTF-8 mode where names of files are taken for ASCII, as in the locale C: with all that
    this process will start, since names of files and what programs say are UTF-8 between our processes."""
    if sys.getfilesystemencoding() == "ascii" and sys.flags.utf8_mode == 0:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _invoke(command: click.Command, args: Sequence[str]) -> int:
    try:
        with command.make_context("demaq", list(args)) as context:
            result = command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return result if isinstance(result, int) else EXIT_DONE


def _say(message: str) -> None:
    if is_logged_as_json():
        log_line(message, logging.ERROR)
    else:
        click.echo(f"demaq: {message}", err=True)


def _one_line(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        # Files that we write name themselves: what is left is where the results go.
        return f"standard output: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def _open_null() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _discard_further_output() -> None:
    # Python flushes stdout once more at exit and would complain about the same pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
