"""How repeated requests are known again, whichever gateway they come through.

An authenticated sender has a name space of its own: no other sender can use up its names, and what comes under such a
name a second time has to be the same. Without authentication, names can be guessed. A key that a sender has chosen is
its own affair, and another message under it is refused. But the names of messages of nodes and of mails are known to
others, or follow from each other. There the name counts with a digest of what was sent: if a stranger uses a name
first, the real message is stored as well.
"""

from __future__ import annotations

from urllib.parse import quote

from demaq.gateways.security.authentication import Identity
from demaq.store.request_names import make_request


def request_of(transport: str, queue: str, identity: Identity, name: str, digest: str, *, is_guessable: bool) -> str:
    """Return what a request is remembered by. `digest` is of all that it says."""
    # A name with colons must not look like another one with a key.
    sender = "" if identity.kind == "none" else f"{identity.kind}:{quote(identity.name, safe='')}"
    whole = f"{transport}:{queue}:{sender}:{name}"
    return f"{whole}:{digest}" if identity.kind == "none" and is_guessable else make_request(whole, digest)
