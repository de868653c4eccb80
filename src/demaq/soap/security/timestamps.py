"""Timestamps: when a message was made, and until when it is valid (SOAP Message Security 1.1, section 10)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from lxml import etree

from demaq.soap.qualified_names import clark
from demaq.soap.security.element_writer import RandomBytes, add_element, ensure_id
from demaq.soap.security.header_reader import only_child, optional_child, text_of
from demaq.soap.security.security_faults import expired_message, invalid_security
from demaq.soap.security.verification_settings import VerificationSettings
from demaq.soap.security.wss_names import WSU

_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,20}))?(Z|([+-])([0-9]{2}):([0-9]{2}))?"
)


def write_timestamp(
    security: etree._Element, now: datetime, lifetime: timedelta, random: RandomBytes
) -> etree._Element:
    """Add a Timestamp to a header."""
    timestamp = add_element(security, WSU, "Timestamp")
    ensure_id(timestamp, random)
    add_element(timestamp, WSU, "Created", format_time(now))
    add_element(timestamp, WSU, "Expires", format_time(now + lifetime))
    return timestamp


def check_timestamp(timestamp: etree._Element, now: datetime, settings: VerificationSettings) -> datetime:
    """Return when a message is no longer accepted. Raises SoapRefusal if it is not accepted now."""
    created = parse_time(text_of(only_child(timestamp, clark(WSU, "Created"))))
    written = optional_child(timestamp, clark(WSU, "Expires"))
    expires = parse_time(text_of(written)) if written is not None else None
    if expires is not None and expires < created:
        raise invalid_security("a Timestamp expires before it was created")
    last = check_created(created, now, settings)
    if expires is None:
        return last
    if now >= expires + settings.clock_skew:
        raise expired_message("the message has expired")
    return min(last, expires + settings.clock_skew)


def check_created(created: datetime, now: datetime, settings: VerificationSettings) -> datetime:
    """Return when something that was made at a time is no longer accepted. Raises SoapRefusal if it is not now."""
    if created > now + settings.clock_skew:
        raise expired_message("the message was made in the future: the clocks differ too much")
    last = created + settings.lifetime_max + settings.clock_skew
    if now >= last:
        raise expired_message("the message is too old")
    return last


def format_time(time: datetime) -> str:
    """Return a time in UTC with milliseconds, as most software writes it."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_time(text: str) -> datetime:
    """Return a time of XML Schema with any number of decimals. Without a zone it is UTC. Raises SoapRefusal."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise invalid_security("a time in the security header is no dateTime")
    year, month, day, hour, minute, second = [int(part) for part in match.groups()[:6]]
    zone = UTC
    try:
        if match[9]:
            offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
            zone = timezone(-offset if match[9] == "-" else offset)
        microsecond = int((match[7] or "0")[:6].ljust(6, "0"))
        time = datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
        if not 1 < time.year < 9999:  # so that durations can be added
            raise OverflowError
    except (ValueError, OverflowError):
        raise invalid_security("a time in the security header is no dateTime") from None
    return time
