"""Passwords, kept as hashes that are slow to try.

scrypt, because people choose passwords: every guess of an attacker who has the file costs time and memory. The
parameters stand in each hash, so that they can grow without new passwords.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import unicodedata

COST = 2**15
BLOCK = 8
PARALLEL = 1
COST_MAX = 2**18
"""A hash in a file may not ask for more than 256 MB."""
BLOCK_MAX = 8
PARALLEL_MAX = 16
SALT_BYTES = 16
HASH_BYTES = 32
PASSWORD_LENGTH_MIN = 8
PASSWORD_LENGTH_MAX = 256
SCHEME = "scrypt"
_HASH = re.compile(r"scrypt:(\d{1,7}):(\d{1,2}):(\d{1,2}):([A-Za-z0-9+/=]{4,88}):([A-Za-z0-9+/=]{24,88})", re.ASCII)
_MEMORY_SPARE = 1024 * 1024


def password_hash(password: str) -> str:
    salt = secrets.token_bytes(SALT_BYTES)
    made = _scrypt(password, salt, COST, BLOCK, PARALLEL, HASH_BYTES)
    return f"{SCHEME}:{COST}:{BLOCK}:{PARALLEL}:{_text(salt)}:{_text(made)}"


def is_password_hash(text: str) -> bool:
    return _parts(text) is not None


def password_matches(password: str, hashed: str) -> bool:
    """Return whether this is the password. Takes a noticeable time in either case."""
    parts = _parts(hashed)
    if parts is None:
        return False
    cost, block, parallel, salt, expected = parts
    return hmac.compare_digest(_scrypt(password, salt, cost, block, parallel, len(expected)), expected)


def _parts(text: str) -> tuple[int, int, int, bytes, bytes] | None:
    match = _HASH.fullmatch(text)
    if match is None:
        return None
    cost, block, parallel = int(match[1]), int(match[2]), int(match[3])
    is_power_of_two = cost > 1 and cost & (cost - 1) == 0
    if not (is_power_of_two and cost <= COST_MAX and 1 <= block <= BLOCK_MAX and 1 <= parallel <= PARALLEL_MAX):
        return None
    try:
        return (
            cost,
            block,
            parallel,
            base64.b64decode(match[4], validate=True),
            base64.b64decode(match[5], validate=True),
        )
    except binascii.Error:
        return None


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int, length: int) -> bytes:
    memory = 128 * block * (cost + parallel) + _MEMORY_SPARE
    # One form for letters that can be written in two ways: RFC 7617 leaves it to us, and keyboards differ.
    data = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=block, p=parallel, maxmem=memory, dklen=length)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
