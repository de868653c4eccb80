"""A source of WS-ReliableMessaging that writes its envelopes as texts: nothing of it is ours, but for the names."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from lxml import etree

from tests.support.gateways.client import Client, Response

SOAP = {"1.1": "http://schemas.xmlsoap.org/soap/envelope/", "1.2": "http://www.w3.org/2003/05/soap-envelope"}
KINDS = {"1.1": "text/xml; charset=utf-8", "1.2": "application/soap+xml; charset=utf-8"}
WSA = "http://www.w3.org/2005/08/addressing"
WSA_2004 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
ANONYMOUS = {WSA: f"{WSA}/anonymous", WSA_2004: f"{WSA_2004}/role/anonymous"}
WSRM = {"1.0": "http://schemas.xmlsoap.org/ws/2005/02/rm", "1.1": "http://docs.oasis-open.org/ws-rx/wsrm/200702"}


@dataclass
class Answer:
    """A response, with what a source looks for in it."""

    response: Response
    rm: str
    tree: etree._Element | None

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def fault(self) -> str | None:
        """The most specific code of the fault, by its local name."""
        if self.tree is None:
            return None
        names = [
            "string((//*[local-name()='SequenceFault']/*[local-name()='FaultCode'])[1])",
            "string((//*[local-name()='Subcode'])[last()]/*[local-name()='Value'])",
            "string((//*[local-name()='faultcode'])[1])",
            "string((//*[local-name()='Code']/*[local-name()='Value'])[1])",
        ]
        found = [str(self.tree.xpath(name)) for name in names]
        return next((one.rpartition(":")[2] for one in found if one), None)

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        """What is acknowledged; None if there is no acknowledgement."""
        if self.tree is None or self.tree.find(f".//{{{self.rm}}}SequenceAcknowledgement") is None:
            return None
        found = self.tree.findall(f".//{{{self.rm}}}AcknowledgementRange")
        return [(int(one.get("Lower", "")), int(one.get("Upper", ""))) for one in found]

    @property
    def is_final(self) -> bool:
        return self.tree is not None and self.tree.find(f".//{{{self.rm}}}Final") is not None

    def text(self, name: str) -> str | None:
        if self.tree is None:
            return None
        found = self.tree.xpath(f"string((//*[local-name()='{name}'])[1])")
        return str(found) or None

    @property
    def body(self) -> str | None:
        """The local name of the element in the Body."""
        if self.tree is None:
            return None
        found = str(self.tree.xpath("local-name(/*/*[local-name()='Body']/*[1])"))
        return found or None


@dataclass
class RawSource:
    """One sequence, from the side that sends."""

    client: Client
    path: str
    soap: str = "1.1"
    rm: str = "1.1"
    wsa: str = WSA
    headers: dict[str, str] = field(default_factory=dict)
    identifier: str = ""

    def post(self, action: str, blocks: str, body: str, message_id: str | None = None, reply_to: str = "") -> Answer:
        data = self.write(action, blocks, body, message_id, reply_to)
        return self.send_bytes(data, action)

    def write(self, action: str, blocks: str, body: str, message_id: str | None = None, reply_to: str = "") -> str:
        address = reply_to or ANONYMOUS[self.wsa]
        return (
            f'<e:Envelope xmlns:e="{SOAP[self.soap]}" xmlns:a="{self.wsa}" xmlns:r="{WSRM[self.rm]}"><e:Header>'
            f"<a:MessageID>{message_id or uuid.uuid4().urn}</a:MessageID><a:To>http://example.org{self.path}</a:To>"
            f'<a:Action e:mustUnderstand="1">{action}</a:Action>'
            f"<a:ReplyTo><a:Address>{address}</a:Address></a:ReplyTo>{blocks}</e:Header>"
            f"<e:Body>{body}</e:Body></e:Envelope>"
        )

    def send_bytes(self, data: str, action: str = "") -> Answer:
        headers: dict[str, str] = {"Content-Type": KINDS[self.soap], **self.headers}
        if self.soap == "1.1":
            headers["SOAPAction"] = f'"{action}"'
        response = self.client.post(self.path, data, headers)
        tree = etree.fromstring(response.content) if response.content.strip() else None
        return Answer(response, WSRM[self.rm], tree)

    def create(
        self, message_id: str | None = None, acks_to: str = "", expires: str = "", offer: str = "", reply_to: str = ""
    ) -> Answer:
        lifetime = f"<r:Expires>{expires}</r:Expires>" if expires else ""
        address = acks_to or ANONYMOUS[self.wsa]
        offered = f"<r:Offer><r:Identifier>{offer}</r:Identifier>{self._endpoint()}</r:Offer>" if offer else ""
        body = (
            f"<r:CreateSequence><r:AcksTo><a:Address>{address}</a:Address></r:AcksTo>{lifetime}{offered}"
            "</r:CreateSequence>"
        )
        answer = self.post(f"{WSRM[self.rm]}/CreateSequence", "", body, message_id, reply_to)
        self.identifier = answer.text("Identifier") or self.identifier
        return answer

    def send(
        self,
        number: int,
        body: str,
        action: str,
        *,
        is_last: bool = False,
        asks: bool = False,
        message_id: str | None = None,
        reply_to: str = "",
    ) -> Answer:
        return self.post(action, self.sequence_block(number, is_last, asks), body, message_id, reply_to)

    def sequence_block(self, number: int, is_last: bool = False, asks: bool = False) -> str:
        last = "<r:LastMessage/>" if is_last else ""
        asked = f"<r:AckRequested>{self._identifier()}</r:AckRequested>" if asks else ""
        return (
            f'<r:Sequence e:mustUnderstand="1">{self._identifier()}<r:MessageNumber>{number}</r:MessageNumber>{last}'
            f"</r:Sequence>{asked}"
        )

    def ask(self) -> Answer:
        return self.post(f"{WSRM[self.rm]}/AckRequested", f"<r:AckRequested>{self._identifier()}</r:AckRequested>", "")

    def close(self, last: int | None = None) -> Answer:
        return self._end("CloseSequence", last)

    def terminate(self, last: int | None = None) -> Answer:
        return self._end("TerminateSequence", last)

    def _end(self, name: str, last: int | None) -> Answer:
        number = f"<r:LastMsgNumber>{last}</r:LastMsgNumber>" if last is not None else ""
        return self.post(f"{WSRM[self.rm]}/{name}", "", f"<r:{name}>{self._identifier()}{number}</r:{name}>")

    def _identifier(self) -> str:
        return f"<r:Identifier>{self.identifier}</r:Identifier>"

    def _endpoint(self) -> str:
        if self.rm == "1.0":
            return ""
        return f"<r:Endpoint><a:Address>{ANONYMOUS[self.wsa]}</a:Address></r:Endpoint>"
