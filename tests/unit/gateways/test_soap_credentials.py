"""The user and password of WS-Security go to the gateway's own server, and to those that the settings list."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.http import HttpSender, SoapExtensions
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import parse_destination
from demaq.soap.policy import GatewayPolicy
from demaq.soap.security import ExchangeRequirements, SecurityRequirements, UsernameRequirement
from demaq.store.memory_store import MemoryStore
from tests.support.soap.wsdls import document_wsdl, interface_of
from tests.support.store.contract import new

OWN = "http://own.invalid/orders"
ELSEWHERE = "http://elsewhere.invalid/orders"


class Leaky:
    """Notes what it is asked to secure: it would put the password into it."""

    def __init__(self) -> None:
        self.secured: list[bytes] = []

    def secure_request(self, envelope: bytes) -> Any:
        self.secured.append(envelope)
        raise AssertionError("only asked for servers that are trusted")

    def verify_answer(self, *words: Any, **named: Any) -> Any:
        raise AssertionError("nothing is sent")


def test_a_recipient_that_a_message_names_does_not_get_our_password(tmp_path: Path):
    store = MemoryStore()
    requirements = SecurityRequirements(username=UsernameRequirement())
    policy = GatewayPolicy(security=ExchangeRequirements(request=requirements, answer=SecurityRequirements()))
    security = Leaky()
    replays: Any = object()
    extensions = SoapExtensions(policies={"out": policy}, security={"out": security}, replays=replays)
    interfaces = {"out": interface_of(tmp_path, document_wsdl("1.1"))}
    sender = HttpSender(store.epochs(), interfaces, {"out": OWN}, {"out": False}, extensions)
    [seq] = store.append([new("out", '<note xmlns="urn:orders">x</note>', undelivered=True, priority=None)])
    message = store.message(seq)
    assert message is not None

    result = asyncio.run(sender.send(message, parse_destination(ELSEWHERE), OutgoingSettings()))

    assert isinstance(result, DeliveryFailed)
    assert (result.kind, result.again) == ("routing", False)
    assert "credentials_to" in result.reason
    assert security.secured == []
