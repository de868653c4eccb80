"""Files of keys, certificates and users: what is wrong with them is one line, and changed ones are read again."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from demaq.errors import OperatorError
from demaq.gateways.security.file_watch import LOOK_EVERY_SECONDS
from demaq.gateways.security.message_keys import MessageKeys, read_key_material
from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings import MessageSecuritySettings
from tests.support.gateways.security.clock import HandClock
from tests.support.gateways.security.message_key_files import PASSWORD, USER, MessageKeyFiles
from tests.support.soap.security_parties import make_certificate, private_pem

HIDDEN = "hunter3hunter3"
SECTION = "incoming.orders"


@pytest.fixture
def files(tmp_path: Path) -> MessageKeyFiles:
    return MessageKeyFiles(tmp_path)


def refusal(settings: MessageSecuritySettings, folder: Path) -> str:
    """Return the error without the section and the path of the folder."""
    with pytest.raises(OperatorError) as error:
        read_key_material(settings, SECTION)
    said = str(error.value)
    assert "\n" not in said
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    for secret in (HIDDEN, PASSWORD, "BEGIN RSA", "MII"):
        assert secret not in said
    return said.removeprefix(f"[{SECTION}] ").replace(f"{folder}/", "")


# --- what files may hold ---------------------------------------------------------------------------------------------


def test_all_files_are_read(files: MessageKeyFiles):
    root, between = make_certificate("root", ca=True), make_certificate("between", issuer="root", ca=True)
    settings = files.service(
        trusted=(files.write_certificates("two.pem", files.certificates["client"], files.certificates["service"]),),
        roots=(files.write_certificates("root.pem", root),),
        known=(files.write_certificates("between.pem", between),),
        partner=files.folder / "client.pem",
    )

    found = read_key_material(settings, SECTION)

    assert found.own_key is not None
    assert found.own_key.certificate == files.certificates["service"]
    assert found.decryption_keys == (found.own_key,)
    assert found.partner == files.certificates["client"]
    assert found.trust.find(lambda one: one == files.certificates["service"]) is not None
    assert found.trust.find(lambda one: one == between) == between
    assert found.trust.find(lambda one: one == root) is None
    assert found.users is not None
    assert found.users.password_of(USER) == PASSWORD


def test_settings_that_name_no_files_have_no_keys():
    found = read_key_material(MessageSecuritySettings(), SECTION)

    assert (found.own_key, found.decryption_keys, found.partner, found.users) == (None, (), None, None)


@pytest.mark.parametrize("key_first", [True, False])
def test_key_and_certificate_may_be_in_one_file(files: MessageKeyFiles, key_first: bool):
    parts = [private_pem("service"), files.certificates["service"].public_bytes(Encoding.PEM)]
    both = files.write_private("both.pem", b"".join(parts if key_first else reversed(parts)))

    found = read_key_material(files.service(key=both, certificate=both), SECTION)

    assert found.own_key is not None
    assert found.own_key.certificate == files.certificates["service"]


def test_a_key_may_have_a_password_whether_the_former_ones_have_it_or_not(files: MessageKeyFiles):
    made = files.write_pair("service", password=HIDDEN.encode())
    old = make_certificate("old")
    encrypted = private_pem("old", password=HIDDEN.encode()) + old.public_bytes(Encoding.PEM)
    plain = private_pem("client") + files.certificates["client"].public_bytes(Encoding.PEM)
    settings = files.service(
        key_password=Secret(HIDDEN),
        old_keys=(files.write_private("old.pem", encrypted), files.write_private("older.pem", plain)),
    )

    found = read_key_material(settings, SECTION)

    assert [key.certificate for key in found.decryption_keys] == [made, old, files.certificates["client"]]
    assert HIDDEN not in repr((settings, found))


def test_a_former_key_that_is_the_current_one_counts_once(files: MessageKeyFiles):
    both = private_pem("service") + files.certificates["service"].public_bytes(Encoding.PEM)

    found = read_key_material(files.service(old_keys=(files.write_private("old.pem", both),)), SECTION)

    assert len(found.decryption_keys) == 1


def test_of_users_only_empty_lines_and_comments_are_ignored(files: MessageKeyFiles):
    text = "\ufeff# ann:wrong\n\n   \nann: a#b:c \r\nbob:ü\n"
    users = read_key_material(files.service(users=files.write_private("u", text.encode())), SECTION).users

    assert users is not None
    assert [users.password_of(name) for name in ("ann", "bob", "# ann", "")] == [" a#b:c ", "ü", None, None]


def test_a_file_without_users_lets_no_user_in(files: MessageKeyFiles):
    users = read_key_material(files.service(users=files.write_private("u", b"")), SECTION).users

    assert users is not None
    assert users.password_of(USER) is None


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (HIDDEN, "line 2 is not user:password"),
        (f":{HIDDEN}", "line 2 is not user:password"),
        (f"{HIDDEN}:", "line 2 is not user:password"),
        (f" ann:{HIDDEN}", "line 2 is not user:password"),
        (f"ann :{HIDDEN}", "line 2 is not user:password"),
        (f"ann:{HIDDEN}\x07", "line 2 is not user:password"),
        (f"ann:{HIDDEN}\u2028bob:{HIDDEN}", "line 2 is not user:password"),
        (f"{HIDDEN * 20}:a", "line 2 is too long"),
        (f"ann:{HIDDEN * 300}", "line 2 is too long"),
        (f"bob:{HIDDEN}", "the user of line 2 is there twice"),
    ],
)
def test_a_wrong_line_of_users_is_named_by_its_number_and_not_shown(files: MessageKeyFiles, line: str, problem: str):
    users = files.write_private("u", f"bob:a\n{line}\n".encode())

    assert refusal(files.service(users=users), files.folder) == f"security_users: u: {problem}"


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666, 0o777])
@pytest.mark.parametrize("name", ["service.key", "users"])
def test_private_files_that_others_may_read_or_change_are_refused(files: MessageKeyFiles, name: str, mode: int):
    (files.folder / name).chmod(mode)

    said = refusal(files.service(), files.folder)

    setting = "security_key" if name == "service.key" else "security_users"
    assert said == f"{setting}: {name}: others may read or change it; chmod 600 {name}"


def test_former_keys_must_be_private_and_certificates_need_not(files: MessageKeyFiles):
    both = private_pem("service") + files.certificates["service"].public_bytes(Encoding.PEM)
    old = files.write_private("old.pem", both, mode=0o644)
    (files.folder / "client.pem").chmod(0o666)

    assert refusal(files.service(old_keys=(old,)), files.folder).startswith("security_old_keys: old.pem: others may")
    read_key_material(files.service(), SECTION)


def test_every_file_that_cannot_be_used_is_named_with_its_setting(files: MessageKeyFiles):
    folder = files.folder
    (folder / "text").write_text(HIDDEN)
    cut = files.certificates["client"].public_bytes(Encoding.PEM)
    (folder / "cut").write_bytes(cut + cut[:300])
    (folder / "broken").write_bytes(cut.replace(b"\nM", b"\nN", 1))
    files.write_private("no.key", HIDDEN.encode())
    files.write_private("broken.key", b"-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----\n")
    files.write_private("locked.key", private_pem("service", password=HIDDEN.encode()))
    strange = ed25519.Ed25519PrivateKey.generate()
    pem = strange.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files.write_private("strange.key", pem)
    no_certificate = "there is no certificate in it; a PEM file has -----BEGIN CERTIFICATE-----"
    no_key = "there is no key in it; a PEM file has -----BEGIN PRIVATE KEY-----"
    locked = "the key is encrypted; say where its password is with security_key_password"
    wrong = "a key or its certificate cannot be read (ValueError); perhaps its password is another one"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"key": folder / "none"}, "security_key: none: No such file or directory"),
        ({"key": folder}, "security_key: "),
        ({"key": folder / "no.key"}, f"security_key: no.key: {no_key}"),
        ({"key": folder / "broken.key"}, "security_key: broken.key: a key or its certificate cannot be read"),
        ({"key": folder / "client.key"}, "security_key: client.key: a certificate does not belong to its private key"),
        ({"key": folder / "strange.key"}, "security_key: strange.key: a key for WS-Security is of kind RSA or EC"),
        ({"key": folder / "locked.key"}, f"security_key: locked.key: {locked}"),
        ({"key": folder / "locked.key", "key_password": Secret(PASSWORD)}, f"security_key: locked.key: {wrong}"),
        ({"certificate": folder / "text"}, f"security_key: text: {no_certificate}"),
        ({"certificate": folder / "none"}, "security_key: none: No such file or directory"),
        ({"old_keys": (folder / "service.key",)}, f"security_old_keys: service.key: {no_certificate}"),
        ({"trusted": (folder / "client.pem", folder / "none")}, "security_trusted: none: No such file or directory"),
        ({"trusted": (folder / "cut",)}, "security_trusted: cut: a certificate in it cannot be read"),
        ({"roots": (folder / "broken",)}, "security_roots: broken: a certificate in it cannot be read"),
        ({"known": (folder / "text",)}, f"security_known: text: {no_certificate}"),
        ({"partner": folder / "text"}, f"security_partner: text: {no_certificate}"),
        ({"users": folder / "none"}, "security_users: none: No such file or directory"),
    ]

    for changes, said in cases:
        assert refusal(files.service(**changes), folder).startswith(said)


# --- while a node runs -----------------------------------------------------------------------------------------------


def test_replaced_files_are_read_within_a_second_and_not_more_often(files: MessageKeyFiles):
    clock = HandClock()
    keys = MessageKeys(files.service(), SECTION, clock)
    first = keys.current()

    files.write_private("users", b"bob:b\n")
    clock.go_on(LOOK_EVERY_SECONDS / 2)
    assert keys.current() is first
    clock.go_on(LOOK_EVERY_SECONDS / 2)
    second = keys.current()
    clock.go_on(10 * LOOK_EVERY_SECONDS)

    assert keys.current() is second
    assert first.users is not None
    assert second.users is not None
    assert (first.users.password_of("bob"), second.users.password_of("bob")) == (None, "b")
    assert second.users.password_of(USER) is None


@pytest.mark.parametrize(
    "name", ["service.key", "service.pem", "old.pem", "client.pem", "root.pem", "known.pem", "p.pem"]
)
def test_a_change_of_any_file_is_noticed(files: MessageKeyFiles, name: str):
    clock = HandClock()
    both = private_pem("service") + files.certificates["service"].public_bytes(Encoding.PEM)
    files.write_private("old.pem", both)
    for each in ("root.pem", "known.pem", "p.pem"):
        files.write_certificates(each, files.certificates["client"])
    settings = files.service(
        old_keys=(files.folder / "old.pem",),
        roots=(files.folder / "root.pem",),
        known=(files.folder / "known.pem",),
        partner=files.folder / "p.pem",
    )
    keys = MessageKeys(settings, SECTION, clock)
    first = keys.current()

    path = files.folder / name
    path.write_bytes(b"\n" + path.read_bytes())
    clock.go_on(LOOK_EVERY_SECONDS)

    assert keys.current() is not first


def test_files_that_become_unusable_leave_the_former_ones_in_use_and_are_logged_once(
    files: MessageKeyFiles, caplog: pytest.LogCaptureFixture
):
    clock = HandClock()
    keys = MessageKeys(files.service(), SECTION, clock)
    first = keys.current()
    caplog.set_level(logging.INFO)

    files.write_private("users", f"bob:b\n{HIDDEN}\n".encode())
    for _ in range(3):
        clock.go_on(LOOK_EVERY_SECONDS)
        assert keys.current() is first
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    files.folder.joinpath("users").unlink()
    clock.go_on(LOOK_EVERY_SECONDS)
    assert keys.current() is first
    assert len(caplog.records) == 2
    files.write_private("users", b"bob:b\n")
    clock.go_on(LOOK_EVERY_SECONDS)

    assert keys.current() is not first
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert f"[{SECTION}] security_users: {files.users}: line 2 is not user:password; the former" in caplog.text
    assert HIDDEN not in caplog.text


def test_a_key_whose_certificate_comes_later_is_used_when_both_are_there(files: MessageKeyFiles):
    clock = HandClock()
    keys = MessageKeys(files.service(), SECTION, clock)
    first = keys.current()

    files.write_private("service.key", private_pem("new service"))
    clock.go_on(LOOK_EVERY_SECONDS)
    assert keys.current() is first
    made = files.write_pair("service", of="new service")
    clock.go_on(LOOK_EVERY_SECONDS)

    found = keys.current().own_key
    assert found is not None
    assert found.certificate == made


def test_a_clock_that_is_set_back_does_not_stop_the_looking(files: MessageKeyFiles):
    clock = HandClock()
    keys = MessageKeys(files.service(), SECTION, clock)
    first = keys.current()

    files.write_private("users", b"bob:b\n")
    clock.go_on(-3600)

    assert keys.current() is not first


def test_threads_see_the_former_or_the_new_files_and_never_a_mixture(files: MessageKeyFiles):
    keys = MessageKeys(files.service(), SECTION, iter(range(10**9)).__next__)  # every look is due
    pairs = [(files.certificates["service"], PASSWORD), (files.write_pair("other", of="new service"), "b")]
    stop = threading.Event()
    seen: set[tuple[bool, bool]] = set()
    failures: list[BaseException] = []

    def use() -> None:
        try:
            while not stop.is_set():
                now = keys.current()
                assert now.own_key is not None
                assert now.users is not None
                is_new = now.own_key.certificate == pairs[1][0]
                seen.add((is_new, now.users.password_of(USER) == "b"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    files.write_private("users", b"ann:b\n")  # alone it is a change, too
    for name in ("key", "pem"):
        (files.folder / f"other.{name}").replace(files.folder / f"service.{name}")
    give_up = time.monotonic() + 60
    while (True, True) not in seen and not failures and time.monotonic() < give_up:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert (True, True) in seen
    assert (True, False) not in seen, "the new users came first"
