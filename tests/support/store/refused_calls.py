"""A process that is refused some system calls after its second commit, by a filter on them (Linux, seccomp).

    python refused_calls.py FOLDER ERROR CALL…

It ends with 77 where the system does not have such filters.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from demaq.errors import StoreError
from demaq.store import SqliteStore
from demaq.store.protocol import NewMessage, Step

NUMBERS = {
    "x86_64": {"pwrite64": 18, "fsync": 74, "fdatasync": 75},
    "aarch64": {"pwrite64": 68, "fsync": 82, "fdatasync": 83},
}
"""Of the system calls that a store makes to write."""
NOT_HERE = 77

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def refuse(calls: list[str], error: int) -> bool:
    """From now on, for ever. Return whether the system agreed."""
    numbers = NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return False
    made = [_Instruction(_LOAD, 0, 0, 0)]  # the number of the call
    for distance, call in enumerate(reversed(calls)):
        made.insert(1, _Instruction(_JUMP_IF_EQUAL, distance + 1, 0, numbers[call]))
    made += [_Instruction(_RETURN, 0, 0, _ALLOW), _Instruction(_RETURN, 0, 0, _FAIL | error)]
    instructions = (_Instruction * len(made))(*made)
    program = _Program(len(instructions), instructions)
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(system.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0)


def message(body: str) -> NewMessage:
    return NewMessage(
        queue="orders", body=body, properties={}, created=datetime.now(UTC), priority=0, slices=(("order", "1"),)
    )


def main(folder: Path, error: int, calls: list[str]) -> None:
    store = SqliteStore(folder)
    store.append([message("<first/>")])
    store.commit([Step(processed=1, created=(message("<second/>"),))])
    before = store.stored(None, 0, 99)
    if not refuse(calls, error):
        print("the system has no filters on system calls")
        os._exit(NOT_HERE)
    for _ in range(2):
        try:
            store.append([message("<third/>"), message("<fourth/>")])
        except StoreError as refusal:
            print(refusal, flush=True)
        else:
            sys.exit("a commit was acknowledged that cannot have succeeded")
        assert store.stored(None, 0, 99) == before
    os._exit(0)  # as if it were killed


if __name__ == "__main__":
    main(Path(sys.argv[1]), getattr(errno, sys.argv[2]), sys.argv[3:])
