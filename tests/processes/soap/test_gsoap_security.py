"""gSOAP's WS-Security and ours, in both directions, through files: users, signatures, encryption.

gSOAP encrypts keys with RSA 1.5 whatever it says: its flag for OAEP changes the padding of AES alone (2.8.124).
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    AlgorithmSuite,
    MessageParts,
    OwnKey,
    PasswordForm,
    Protection,
    SecurityRequirements,
    TrustStore,
    UserCredential,
    UsernameRequirement,
    UserPasswords,
    Verification,
    VerifiedEnvelope,
    secure,
    verify,
)
from demaq.soap.security.algorithm_suite import RSA_1_5
from tests.support.soap.foreign_tools import gsoap
from tests.support.soap.security_parties import (
    NOW,
    SOAP,
    MemoryReplayCache,
    make_certificate,
    make_own_key,
    private_pem,
)

pytestmark = pytest.mark.slow
SOURCES = Path(__file__).parents[2] / "support" / "soap" / "gsoap_security"
SIGNED = SecurityRequirements(timestamp=True, signed=MessageParts(body=True, timestamp=True))
MODES = {
    "sign": SIGNED,
    "sign encrypt": replace(SIGNED, encrypted=MessageParts(body=True), suite=AlgorithmSuite(key_transport=(RSA_1_5,))),
    "user": SecurityRequirements(username=UsernameRequirement()),
    "text": SecurityRequirements(username=UsernameRequirement(password=PasswordForm.TEXT, nonce=False, created=False)),
}
ENVELOPE = (
    f'<e:Envelope xmlns:e="{SOAP["1.1"]}"><e:Body><n:order xmlns:n="urn:orders"><no>17</no></n:order></e:Body></e:Envelope>'
).encode()


@dataclass(frozen=True)
class Parties:
    """Two certificates that are valid today, and the program of gSOAP."""

    program: Path
    keys: dict[str, OwnKey]

    def run(self, words: str, own: str, partner: str, data: bytes = b"") -> bytes:
        """Return what gSOAP writes to a connection, without the header of HTTP."""
        folder = self.program.parent
        files = [folder / f"{own}.key", folder / f"{own}.crt", folder / f"{partner}.crt"]
        done = subprocess.run([self.program, words, *files], input=data, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 or words.startswith("serve"), done.stderr
        return done.stdout.partition(b"\r\n\r\n")[2].rstrip(b"\r\n")

    def verify(self, data: bytes, requirements: SecurityRequirements, own: str, partner: str) -> VerifiedEnvelope:
        verification = Verification(
            requirements=requirements,
            own_keys=(self.keys[own],),
            trust=TrustStore(certificates=[self.keys[partner].certificate]),
            users=UserPasswords({"ann": "secret"}),
        )
        return verify(
            data, verification, now=datetime.now(UTC), random=secrets.token_bytes, replays=MemoryReplayCache()
        )

    def secure(self, requirements: SecurityRequirements) -> bytes:
        protection = Protection(
            requirements=requirements,
            own_key=self.keys["client"],
            partner=self.keys["service"].certificate,
            credential=UserCredential("ann", "secret"),
        )
        return secure(ENVELOPE, protection, now=datetime.now(UTC), random=secrets.token_bytes).data


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    usr = gsoap()
    share, folder = usr / "share" / "gsoap", tmp_path_factory.mktemp("gsoap")
    [library] = usr.glob("lib/*/libgsoapssl.a")
    for file in SOURCES.iterdir():
        shutil.copy(file, folder)
    environment = {"LD_LIBRARY_PATH": str(library.parent)}
    imports = [f"-I{share / 'import'}", f"-I{share}"]
    run_tool([usr / "bin" / "soapcpp2", "-c", "-x", "-w", *imports, "order.h"], folder, environment)
    plugins = [share / "plugin" / f"{name}.c" for name in ("wsseapi", "smdevp", "mecevp", "threads")]
    sources = ["party.c", "soapC.c", "soapClient.c", "soapServer.c", *plugins, share / "custom" / "struct_timeval.c"]
    folders = [f"-I{usr / 'include'}", "-I.", f"-I{share / 'plugin'}", f"-I{share}"]
    libraries = [library, "-lssl", "-lcrypto", "-lz", "-lpthread"]
    defined = ["-DWITH_OPENSSL", "-DWITH_DOM", "-DWITH_GZIP"]
    run_tool(["gcc", "-w", *defined, *folders, "-o", "party", *sources, *libraries], folder)
    today = (datetime.now(UTC) - NOW).days
    keys = {}
    for name in ("client", "service"):
        certificate = make_certificate(name, days=(today - 2, today + 3), ca=True)
        keys[name] = make_own_key(name, certificate)
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        (folder / f"{name}.key").write_bytes(private_pem(name))
    return Parties(folder / "party", keys)


def run_tool(command, folder, environment=None):
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    if "openssl" in done.stderr and "No such file" in done.stderr:
        pytest.skip("there are no headers of OpenSSL on this machine (libssl-dev)")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("mode", MODES)
def test_what_gsoap_sends_is_accepted(parties, mode):
    data = parties.run(mode, "client", "service")
    received = parties.verify(data, MODES[mode], "service", "client")
    assert b"<no>17</no>" in received.data
    if mode in ("user", "text"):
        assert received.sender.user == "ann"
    else:
        assert received.sender.certificate == parties.keys["client"].certificate
    if mode == "sign":
        with pytest.raises(SoapRefusal, match="not valid"):
            parties.verify(data.replace(b">17<", b">18<"), MODES[mode], "service", "client")


@pytest.mark.parametrize("mode", MODES)
def test_gsoap_accepts_what_we_send_and_we_its_answer(parties, mode):
    answer = parties.run(f"serve {mode}", "service", "client", parties.secure(MODES[mode]))
    assert b"<result>17</result>" in parties.verify(answer, MODES[mode], "client", "service").data


@pytest.mark.parametrize("mode", ["sign", "sign encrypt"])
def test_gsoap_refuses_what_was_changed(parties, mode):
    data = parties.secure(MODES[mode])
    changed = data.replace(b"</wsu:Expires>", b" </wsu:Expires>")
    assert b"Fault" in parties.run(f"serve {mode}", "service", "client", changed)
