"""Which headers an application may set in a mail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demaq.errors import MessageError
from demaq.gateways.mail.composition import compose


def headers_of(**headers: str) -> dict[str, str]:
    mail = compose(
        "<order/>",
        recipient="mailto:shop@example.org",
        sender="demaq@example.org",
        message_id="17@node.example.org",
        date=datetime(2026, 11, 17, tzinfo=UTC),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
    return {name: str(value) for name, value in mail.items()}


@pytest.mark.parametrize("name", ["Received", "received", "Return_Path", "From", "Bcc", "Content_Type", "Resent_To"])
def test_a_header_that_servers_or_the_node_write_cannot_be_set(name: str):
    with pytest.raises(MessageError, match="cannot be set"):
        headers_of(**{name: "x"})


def test_another_header_can_be_set():
    assert headers_of(X_Order="17", Reply_To="a@example.org")["X-Order"] == "17"
