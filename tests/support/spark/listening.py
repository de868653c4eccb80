"""Where processes listen, as the kernel tells it in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

LISTENING = "0A"


def with_descendants(pid: int) -> list[int]:
    """Return the process, and all that it and its children have started."""
    children = [int(n) for file in Path(f"/proc/{pid}/task").glob("*/children") for n in file.read_text().split()]
    return [pid, *[descendant for child in children for descendant in with_descendants(child)]]


def tcp_addresses(pids: Iterable[int]) -> list[tuple[str, int]]:
    """Return host and port of each TCP socket on which one of the processes listens."""
    inodes = _socket_inodes(pids)
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                host, _, port = fields[1].partition(":")
                found.append((_host(host), int(port, 16)))
    return found


def unix_paths(pids: Iterable[int]) -> set[str]:
    """Return the paths of the Unix domain sockets that the processes have."""
    inodes = _socket_inodes(pids)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {fields[7] for fields in lines if len(fields) > 7 and fields[6] in inodes}


def _socket_inodes(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _host(digits: str) -> str:
    """Return an address that is written as words of the machine's byte order (little-endian)."""
    words = [bytes.fromhex(digits[n : n + 8])[::-1] for n in range(0, len(digits), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return str(IPv4Address(packed))
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)
