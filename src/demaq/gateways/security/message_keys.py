"""Keys, certificates and users of WS-Security, from files that may be replaced while a node runs.

When a node starts, everything in the files must be right. While it runs, all of them are read again when one has
changed. If they cannot be used, the former ones stay in use as a whole, and the log says so once for each change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.errors import OperatorError
from demaq.files import read_private
from demaq.gateways.security.file_watch import FileWatch
from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings.settings import MessageSecuritySettings
from demaq.soap.security import OwnKey, TrustStore, UserPasswords, read_own_key
from demaq.soap.security.username_tokens import PASSWORD_CHARACTERS_MAX, USER_CHARACTERS_MAX

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CERTIFICATES_BYTES_MAX = 16 * 1024 * 1024
"""A file that is longer has no certificates in it."""
_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_ENCRYPTED = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaterial:
    """What the files of one gateway said at one time. Its representation has no secret."""

    own_key: OwnKey | None
    """The key that signs."""
    decryption_keys: tuple[OwnKey, ...]
    """That key and the former ones."""
    partner: Certificate | None
    trust: TrustStore
    users: UserPasswords | None


class MessageKeys:
    """The files of one gateway as they are now. May be used by several threads."""

    def __init__(
        self, settings: MessageSecuritySettings, section: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the files. `section` names the settings in errors. Raises OperatorError."""
        self._settings = settings
        self._section = section
        self._watch = FileWatch(_list_files(settings), clock)
        self._reading = threading.Lock()
        self._material = read_key_material(settings, section)

    def current(self) -> KeyMaterial:
        """Return what the files say, at most a second ago."""
        if self._reading.acquire(blocking=False):  # while one thread reads, the others use what there is
            try:
                if self._watch.has_changed():
                    self._read_again()
            finally:
                self._reading.release()
        return self._material

    def _read_again(self) -> None:
        try:
            self._material = read_key_material(self._settings, self._section)
        except OperatorError as error:
            _log.warning("%s; the former keys, certificates and users stay in use", error)
        else:
            _log.info("[%s] the changed keys, certificates and users are in use", self._section)


def read_key_material(settings: MessageSecuritySettings, section: str) -> KeyMaterial:
    """Return what the files say. Raises OperatorError, which names the setting and quotes nothing."""
    with _name_setting(section, "security_key"):
        own = None
        if settings.key is not None and settings.certificate is not None:
            own = _read_key(settings.key, settings.certificate, settings.key_password)
    with _name_setting(section, "security_old_keys"):
        old = [_read_key(path, path, settings.key_password) for path in settings.old_keys]
    with _name_setting(section, "security_trusted"):
        trusted = _read_all_certificates(settings.trusted)
    with _name_setting(section, "security_roots"):
        roots = _read_all_certificates(settings.roots)
    with _name_setting(section, "security_known"):
        known = _read_all_certificates(settings.known)
    with _name_setting(section, "security_partner"):
        partner = _read_certificates(settings.partner)[0] if settings.partner is not None else None
    with _name_setting(section, "security_users"):
        users = _read_users(settings.users) if settings.users is not None else None
    return KeyMaterial(
        own_key=own,
        decryption_keys=_remove_repeated([*([own] if own is not None else []), *old]),
        partner=partner,
        trust=TrustStore(certificates=trusted, roots=roots, known=known),
        users=users,
    )


def _list_files(settings: MessageSecuritySettings) -> list[Path]:
    lists = (settings.old_keys, settings.trusted, settings.roots, settings.known)
    single = (settings.key, settings.certificate, settings.partner, settings.users)
    return [*[path for path in single if path is not None], *[path for paths in lists for path in paths]]


@contextmanager
def _name_setting(section: str, key: str) -> Iterator[None]:
    """Let an OperatorError say which setting it is about."""
    try:
        yield
    except OperatorError as error:
        raise OperatorError(f"[{section}] {key}: {error}") from None


def _read_key(path: Path, certificate: Path, password: Secret | None) -> OwnKey:
    """Return a private key with its certificate, the first one of its file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding

    text = read_private(path)
    if "PRIVATE KEY-----" not in text:
        raise OperatorError(f"{path}: there is no key in it; a PEM file has -----BEGIN PRIVATE KEY-----")
    is_encrypted = any([mark in text for mark in _ENCRYPTED])
    if is_encrypted and password is None:
        raise OperatorError(f"{path}: the key is encrypted; say where its password is with security_key_password")
    certificate_pem = _read_certificates(certificate)[0].public_bytes(Encoding.PEM)
    secret = password.reveal().encode() if is_encrypted and password is not None else None
    try:
        return read_own_key(text.encode(), certificate_pem, secret)
    except (OperatorError, UnsupportedAlgorithm) as error:
        reason = str(error) if isinstance(error, OperatorError) else "the key is of an unknown kind"
        hint = "; perhaps its password is another one" if is_encrypted else ""
        raise OperatorError(f"{path}: {reason}{hint}") from None


def _remove_repeated(keys: Iterable[OwnKey]) -> tuple[OwnKey, ...]:
    """Return each key once: before a change of keys, the former key may be the current one."""
    return tuple({key.certificate: key for key in keys}.values())


def _read_all_certificates(paths: Iterable[Path]) -> list[Certificate]:
    return [certificate for path in paths for certificate in _read_certificates(path)]


def _read_certificates(path: Path) -> list[Certificate]:
    """Return the certificates of a PEM file, at least one."""
    from cryptography import x509

    data = _read_file(path)
    if _BEGIN_CERTIFICATE not in data:
        raise OperatorError(f"{path}: there is no certificate in it; a PEM file has {_BEGIN_CERTIFICATE.decode()}")
    try:
        found = x509.load_pem_x509_certificates(data)
    except ValueError:
        found = []
    if len(found) != data.count(_BEGIN_CERTIFICATE):  # one that is cut off is left out without an error
        raise OperatorError(f"{path}: a certificate in it cannot be read")
    return found


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(CERTIFICATES_BYTES_MAX + 1)
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    if len(data) > CERTIFICATES_BYTES_MAX:
        raise OperatorError(f"{path}: longer than {CERTIFICATES_BYTES_MAX:,} bytes")
    return data


def _read_users(path: Path) -> UserPasswords:
    """Return the users of a file with lines `user:password`. Empty lines and those with # in front are ignored."""
    passwords: dict[str, str] = {}
    for number, line in enumerate(read_private(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not colon or not user or not password or not line.isprintable() or user != user.strip():
            raise OperatorError(f"{path}: line {number} is not user:password")
        if len(user) > USER_CHARACTERS_MAX or len(password) > PASSWORD_CHARACTERS_MAX:
            raise OperatorError(f"{path}: line {number} is too long")
        if user in passwords:
            raise OperatorError(f"{path}: the user of line {number} is there twice")
        passwords[user] = password
    return UserPasswords(passwords)
