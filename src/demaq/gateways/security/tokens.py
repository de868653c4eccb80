"""Bearer tokens: made at random, kept as hashes.

A plain SHA-256 is enough here, and salt and slowness would add nothing: a token is 256 random bits, so no attacker
can list the candidates that a slow hash is meant to make dear, and no two tokens are the same. Passwords differ.
"""

from __future__ import annotations

import hashlib
import re
import secrets

TOKEN_BYTES = 32
TOKEN_PREFIX = "dmq_"
"""What tokens begin with, so that people and scanners know one where it should not be."""
SCHEME = "sha256"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_hash(token: str) -> str:
    return f"{SCHEME}:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_token_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None
