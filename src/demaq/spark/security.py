"""Authenticate and encrypt the connections between Spark's processes.

A client that reaches the port of a driver or its block manager could have an object deserialised there, and so run code
as our user. Spark's own default is no authentication; here it is on:

    local     Spark makes a secret at each start, which never leaves its process
    YARN      Spark makes a secret at each start, and YARN passes it to the executors
    Kubernetes   the same, in the environment of the executors' pods
    standalone   the secret is the cluster's: master and workers check it too, so the operator has to give it

A secret is never on a command line, where every user of the machine can read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from demaq.errors import OperatorError
from demaq.spark.master import is_local, is_standalone

AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"
SECRET_FILE = "spark.authenticate.secret.file"
SECRET_VARIABLE = "DEMAQ_SPARK_SECRET"
SECRET_CHARACTERS_MIN = 16
"""A shorter secret can be guessed from a recorded handshake."""

PROTECTED = {
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",  # keys are derived with HKDF
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",  # authenticated encryption
    "spark.network.crypto.saslFallback": "false",  # no downgrade to DIGEST-MD5
}
"""Settings that master and workers of a standalone cluster need too; see docs/how-to/run-on-a-cluster.md."""

ENCRYPTED_FILES = {"spark.io.encryption.enabled": "true"}
"""Encrypts what executors write to disk if memory runs short: tasks hold the address of the store."""

_REFUSALS = {
    r"Unknown challenge message": f"its master asks for a secret, and {AUTHENTICATE} is false",
    # The master may close the connection before it has sent the reason.
    r"Exception while bootstrapping client": "its master has another secret, or none, or encrypts in another way",
}
"""What Java logs if a master refuses it, and what that means."""
_NAMED_LIKE_A_SECRET = re.compile(r"(?i)secret|password|token|access\.?key")


def is_protected(options: Mapping[str, str]) -> bool:
    """Return whether connections are authenticated, which they are unless the options say otherwise."""
    return options.get(AUTHENTICATE, "true").strip().lower() != "false"


def protection_settings(
    master: str, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the settings with which Spark on that master protects itself, with the secret of a standalone cluster.

    Without a secret among them, Spark's own file of defaults may still have one.
    """
    if not is_protected(options):
        return {}
    if is_local(master):  # its files are in a private folder, and the store is not encrypted either
        return PROTECTED
    secret = read_secret(options, environment) if is_standalone(master) else None
    return {**PROTECTED, **ENCRYPTED_FILES, **({} if secret is None else {SECRET: secret})}


def read_secret(options: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the secret of a standalone cluster: from the options, the file they name, or the environment."""
    from demaq.files import read_private  # not needed on executors

    if SECRET in options:
        source, secret = SECRET, options[SECRET]
    elif SECRET_FILE in options:
        source = options[SECRET_FILE]
        secret = read_private(Path(source)).rstrip("\r\n")
    elif environment.get(SECRET_VARIABLE):
        source, secret = SECRET_VARIABLE, environment[SECRET_VARIABLE]
    else:
        return None
    if len(secret) < SECRET_CHARACTERS_MIN or not secret.isprintable():
        raise OperatorError(f"{source}: a secret is one line of at least {SECRET_CHARACTERS_MIN} characters")
    return secret


def describe_missing_secret(master: str) -> str:
    """Return the error message for a standalone cluster without a secret."""
    return (
        f"the secret of the cluster at {master} is not known: name a file with --conf {SECRET_FILE}=FILE, or set "
        f"{SECRET_VARIABLE}; for a cluster without one, in a trusted network, "
        f"say --conf {AUTHENTICATE}=false"
    )


def explain_refusal(log: str) -> str | None:
    """Return why the master of a standalone cluster refuses us, or None if the log does not say."""
    return next((meaning for said, meaning in _REFUSALS.items() if re.search(said, log)), None)


def is_secret(name: str) -> bool:
    """Return whether a setting may hold a secret, by its name, as Spark does."""
    return _NAMED_LIKE_A_SECRET.search(name) is not None
