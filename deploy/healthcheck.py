"""Exit 0 if a page of a node is answered with success: `healthcheck.py http://127.0.0.1:8080/healthz`."""

from __future__ import annotations

import sys
from urllib.error import URLError
from urllib.request import urlopen

SECONDS_MAX = 4


def main(address: str) -> int:
    try:
        with urlopen(address, timeout=SECONDS_MAX) as answer:
            return 0 if 200 <= answer.status < 300 else 1
    except (URLError, OSError, ValueError):
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
