"""Whom messages may go to that say themselves where they go (`with Recipient`).

What a rule takes from a message, its sender has chosen. So the operator lists who may be addressed; the gateway's own
endpoint needs no entry. Entries:

    https://bank.example.org        this server
    bank.example.org                both schemes, each on its own port
    bank.example.org:8443           another port; :* for any
    *.example.org                   all names that end so
    *                               every host on the Internet
    127.0.0.1:8080  10.0.0.0/8:*    addresses and networks; IPv6 in brackets: [fd00::/8]
    mailto:*@example.org            mails to a domain; mailto:* to any address

A name opens nothing but public addresses. What is at a private, local or otherwise special address is reached only if
the address itself is listed (`localhost` lists those of loopback), whatever name leads there. That is decided for the
address that is connected to, see `demaq.gateways.outbox.guarded_network`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

PORTS = {"http": 80, "https": 443}
ANY = "*"
MAIL = "mailto:"
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_ENTRY = re.compile(
    r"(?:(?P<scheme>https?)://)?"
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:./]+)\]|(?P<host>[^\s/:@\[\]?#]+(?:/[0-9]{1,2})?))"
    r"(?::(?P<port>[0-9]{1,5}|\*))?/?",
    re.IGNORECASE,
)
_NAME = re.compile(r"\*|(?:\*\.)?[^\s*/:@]+")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses whose last four bytes are the IPv4 address that packets end up at (RFC 6052)."""


class WrongEntry(ValueError):
    """What is no entry of a list of recipients."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One entry for HTTP."""

    schemes: tuple[str, ...]
    name: str | None
    networks: tuple[IpNetwork, ...]
    port: int | None
    """None for that of the scheme, 0 for any."""

    def takes_port(self, scheme: str, port: int) -> bool:
        if scheme not in self.schemes:
            return False
        return port == PORTS[scheme] if self.port is None else self.port in (0, port)

    def takes_name(self, host: str) -> bool:
        if self.name is None:
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return self.name in (ANY, host)


@dataclass(frozen=True, slots=True)
class Recipients:
    """A list of those who may be addressed. Without entries there are none."""

    places: tuple[_Place, ...] = ()
    mails: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Recipients:
        """Return the recipients that entries of the settings allow. Raises WrongEntry."""
        listed = list(entries)
        mails = [entry.strip()[len(MAIL) :].lower() for entry in listed if entry.strip().lower().startswith(MAIL)]
        for mail in mails:
            if mail != ANY and ("@" not in mail.strip("@") or "*" in mail.removeprefix("*@")):
                raise WrongEntry(f"{MAIL}{mail}")
        others = [entry.strip() for entry in listed if not entry.strip().lower().startswith(MAIL)]
        return cls(tuple([_place(entry) for entry in others]), tuple(mails))

    def may_name(self, scheme: str, host: str, port: int) -> bool:
        """Return whether a host may be looked up at all, before its addresses are known."""
        known = _normal(host)
        return any([p.takes_port(scheme, port) and (p.takes_name(known) or bool(p.networks)) for p in self.places])

    def may_connect(self, scheme: str, host: str, port: int, address: str) -> bool:
        """Return whether a host may be connected to at this address, which it was found at."""
        known = _normal(host)
        found = plain_address(address)
        possible = [place for place in self.places if place.takes_port(scheme, port)]
        if any([_is_in(found, network) for place in possible for network in place.networks]):
            return True
        return is_public(found) and any([place.takes_name(known) for place in possible])

    def may_mail(self, address: str) -> bool:
        lowered = address.lower()
        return any([mail in (ANY, lowered, f"*@{lowered.rpartition('@')[2]}") for mail in self.mails])


NO_RECIPIENTS = Recipients()


def plain_address(text: str) -> IpAddress:
    """Return an address without its zone, and one of IPv4 that is written as one of IPv6 as what it is."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: IpAddress) -> bool:
    """Return whether it belongs to one host on the Internet, and not to this machine or its own networks."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = [address.sixtofour, *(address.teredo or ())]
        if address.is_site_local or not all([is_public(each) for each in inner if each is not None]):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _place(entry: str) -> _Place:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise WrongEntry(entry)
    schemes = (match["scheme"].lower(),) if match["scheme"] else tuple(PORTS)
    port = None if match["port"] is None else 0 if match["port"] == ANY else int(match["port"])
    if port is not None and match["port"] != ANY and not 1 <= port <= 65535:
        raise WrongEntry(entry)
    host = match["bracketed"] or match["host"]
    try:
        network = ipaddress.ip_network(host, strict=False)
        return _Place(schemes, None, (network,), port)
    except ValueError:
        if match["bracketed"] or "/" in host or not _NAME.fullmatch(host) or _is_number(host):
            raise WrongEntry(entry) from None
    name = _normal(host)
    return _Place(schemes, name, _LOOPBACK if name == "localhost" else (), port)


def _normal(host: str) -> str:
    lowered = host.strip("[]").rstrip(".").lower()
    try:
        return lowered.encode("idna").decode("ascii") if not lowered.isascii() else lowered
    except UnicodeError:
        return lowered


def _is_number(host: str) -> bool:
    """Return whether it is a mistyped address, and no name."""
    return host.rpartition(".")[2].isdecimal()


def _is_in(address: IpAddress, network: IpNetwork) -> bool:
    return address.version == network.version and address in network
