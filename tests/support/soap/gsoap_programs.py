"""Programs that gSOAP makes from a WSDL, with its plugins for WS-Addressing, WS-ReliableMessaging and WS-Security.

Its plugin wsrmapi.c (2.8.124) has mistakes that end a program: they are put right in a copy, where they are found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.soap.foreign_tools import gsoap

CLIENT_SOURCES: Final = Path(__file__).parent / "gsoap_client"
SERVER_SOURCES: Final = Path(__file__).parent / "gsoap_server"
IMPORTS: Final = {"1.0": "wsrm5.h", "1.1": "wsrm.h"}
"""By the version of WS-ReliableMessaging. 1.1 and 1.2 have the same messages."""
PLUGINS: Final = ("wsaapi", "wsseapi", "smdevp", "mecevp", "threads")
CUSTOM: Final = ("duration", "struct_timeval")
WRAPPED: Final = ("CreateSequence", "CloseSequence", "TerminateSequence", "AckRequested")
"""Operations of the plugin that the server guards with WS-Security."""
BUILD_SECONDS_MAX: Final = 300
RUN_SECONDS_MAX: Final = 300

FIXES: Final = {
    # With 1.0, it is declared in another way than it is defined.
    "struct wsrm__TerminateSequenceType *res);": "struct wsrm__TerminateSequenceResponseType *res);",
    # A message that is acknowledged by its own response is used after it was freed,
    "              *q = p->next;\n": "              *q = p->next;\n              if (data->msg == p) data->msg = NULL;\n",
    # and so is the last one of several if it is acknowledged first.
    "      if (!seq->messages)\n        seq->messageslast = NULL;\n": (
        "      seq->messageslast = seq->messages;\n"
        "      while (seq->messageslast && seq->messageslast->next) seq->messageslast = seq->messageslast->next;\n"
    ),
}


@dataclass(frozen=True)
class GsoapClient:
    """The programs; their sources say how they are used."""

    folder: Path

    def run(self, address: str, words: str, count: int, files: Sequence[Path] = ()) -> list[str]:
        """Return the lines that the client prints, and assert that it has ended well."""
        return self._run("client", [address, words, str(count), *files])

    def run_duplex(self, address: str, port: int, words: str, count: int) -> list[str]:
        """Return the lines of the client that gets its answers at a port of its own."""
        return self._run("duplex", [address, str(port), words, str(count)])

    def _run(self, program: str, words: Sequence[str | Path]) -> list[str]:
        done = subprocess.run(
            [self.folder / program, *words],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-1000:]
        return done.stdout.splitlines()


@dataclass(frozen=True)
class GsoapServer:
    """The server; its source says how it is used."""

    folder: Path

    @contextmanager
    def run(self, words: str, file: Path, keys: Sequence[Path] = ()) -> Iterator[str]:
        """Run it, and yield its address. What the application gets is in the file."""
        command: list[str | Path] = [self.folder / "server", words, file, *keys]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield f"http://127.0.0.1:{int(process.stdout.readline())}"
                assert process.poll() is None, "it has ended before it should"
            finally:
                process.stdin.close()
                process.wait(RUN_SECONDS_MAX)


@dataclass(frozen=True)
class _Compiled:
    """What both kinds of programs are linked with."""

    folder: Path
    options: Sequence[str]
    objects: Sequence[str]
    libraries: Sequence[str]
    environment: Mapping[str, str]

    def link(self, program: str, *words: str) -> None:
        sources = [f"{program}.c", *words, *self.objects, *self.libraries]
        _make(["gcc", "-w", *self.options, "-o", program, *sources], self.folder, self.environment)


def build_gsoap_client(folder: Path, wsdl: str, version: str) -> GsoapClient:
    """Return a client for a service, with this version of WS-ReliableMessaging. Without gSOAP, the test is left out."""
    compiled = _compile(folder, wsdl, version, CLIENT_SOURCES)
    compiled.link("client")
    compiled.link("duplex", "soapServer.c")
    return GsoapClient(folder)


def build_gsoap_server(folder: Path, wsdl: str, version: str) -> GsoapServer:
    """Return a server in the same way."""
    compiled = _compile(folder, wsdl, version, SERVER_SOURCES)
    names = [f"__wsrm__{name}" for name in (*WRAPPED, *(["LastMessage"] if version == "1.0" else []))]
    compiled.link("server", "soapServer.c", *[f"-Wl,--wrap={name}" for name in ("soap_send_empty_response", *names)])
    return GsoapServer(folder)


def _compile(folder: Path, wsdl: str, version: str, sources: Path) -> _Compiled:
    usr = gsoap()
    share = usr / "share" / "gsoap"
    [library] = usr.glob("lib/*/libgsoapssl.a")
    (folder / "shop.wsdl").write_text(wsdl)
    for source in sources.iterdir():
        shutil.copy(source, folder)
    for name in ("wsrmapi.c", "wsrmapi.h"):
        (folder / name).write_text(_fix((share / "plugin" / name).read_text(encoding="latin-1")), encoding="latin-1")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    _make([usr / "bin" / "wsdl2h", "-b", "-c", "-o", "shop.h", "shop.wsdl"], folder, environment)
    with (folder / "shop.h").open("a") as header:
        header.write(f'#import "{IMPORTS[version]}"\n#import "wsse.h"\n')
    imports = [f"-I{share / 'import'}", f"-I{share}"]
    _make([usr / "bin" / "soapcpp2", "-c", "-x", "-w", "-a", "-L", *imports, "shop.h"], folder, environment)
    plugins = [str(share / "plugin" / f"{name}.c") for name in PLUGINS]
    plugins += [str(share / "custom" / f"{name}.c") for name in CUSTOM]
    folders = [f"-I{usr / 'include'}", "-I.", f"-I{share / 'plugin'}", f"-I{share}"]
    options = ["-DWITH_OPENSSL", "-DWITH_DOM", "-DWITH_GZIP", *folders]
    _make(["gcc", "-w", "-c", *options, "soapC.c", "soapClient.c", "wsrmapi.c", *plugins], folder, environment)
    return _Compiled(
        folder=folder,
        options=options,
        objects=[str(path) for path in folder.glob("*.o")],
        libraries=[str(library), "-lssl", "-lcrypto", "-lz", "-lpthread"],
        environment=environment,
    )


def _fix(text: str) -> str:
    for wrong, right in FIXES.items():
        text = text.replace(wrong, right)
    return text


def _make(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False
    )
    if "openssl" in done.stderr and "No such file" in done.stderr:
        pytest.skip("there are no headers of OpenSSL on this machine (libssl-dev)")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
