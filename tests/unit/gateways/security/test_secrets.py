"""A secret is shown only where it is asked for."""

from __future__ import annotations

import copy
import pickle

import pytest

from demaq.gateways.security.secrets import Secret

HIDDEN = "hunter2hunter2"


def test_a_secret_does_not_show_itself():
    secret = Secret(HIDDEN)
    ways = [repr(secret), str(secret), f"{secret}", "%s" % secret, f"{[secret]!r}", f"{secret!a}"]  # noqa: UP031  # one of the ways

    assert all("***" in way and HIDDEN not in way for way in ways)
    assert secret.reveal() == HIDDEN
    assert not hasattr(secret, "__dict__")


def test_a_secret_stays_in_its_process():
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(Secret(HIDDEN))

    assert copy.deepcopy(Secret(HIDDEN)) == Secret(HIDDEN) == copy.copy(Secret(HIDDEN))


def test_secrets_are_compared_by_what_they_hide():
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
