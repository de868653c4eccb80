"""The protocol between a node and its workers, processes or tasks on Spark: one request, then its replies.

| request            | replies                                                                                |
| ------------------ | -------------------------------------------------------------------------------------- |
| RunRound           | RoundResult                                                                            |
| ArrivalRequest     | ArrivalResult: messages that are not stored yet                                        |
| EvaluateMessages   | list of Outcome: each message as if it were alone                                      |
| EvaluateEach       | ITEM Outcome for each message until its time is over, END                              |
| ListRules          | list of AskedRule: the rules that the message is given to                              |
| EvaluateRule       | Outcome of one rule                                                                    |
| ComputeProperties  | list of PropertyResult or MessageError                                                 |
| ComputeEach        | ITEM PropertyResult or MessageError for each message, END                              |
| MigrateProperties  | list of PropertyResult or MessageError                                                 |
| Withdraw           | None: these rules are left to Saxon from now on                                        |
| CheckNative        | None: some native answers were compared with Saxon's                                   |
| None               | no reply: there are no more requests                                                   |

Every last reply carries what has become of native rules since the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import TypeAlias

from demaq.evaluation.arrival_request import ArrivalRequest
from demaq.evaluation.round_request import PropertyRequest, RoundRequest
from demaq.records import record


class ReplyKind(Enum):
    """What a reply says about itself."""

    RESULT = auto()
    """The one reply to a request."""
    RESULT_RECYCLE = auto()
    """The same; the process has grown too much and is to be replaced."""
    ITEM = auto()
    """One of several."""
    END = auto()
    """No more items; with whether the process is to be replaced."""
    STORE_ERROR = auto()
    """The store could not be read, which is no rule's fault."""


@record
class RunRound:
    """A RoundRequest as it travels: the worker reads the messages itself."""

    seqs: Sequence[int]
    snapshot: int
    now: datetime
    deep: bool
    fold: bool
    paused: frozenset[str] = frozenset()
    whole: frozenset[int] = frozenset()

    @staticmethod
    def of(request: RoundRequest) -> RunRound:
        return RunRound(
            seqs=request.seqs,
            snapshot=request.snapshot,
            now=request.now,
            deep=request.deep,
            fold=request.fold,
            paused=request.paused,
            whole=request.whole,
        )


@record
class EvaluateMessages:
    seqs: Sequence[int]
    snapshot: int
    now: datetime


@record
class EvaluateEach:
    seqs: Sequence[int]
    snapshot: int
    now: datetime
    seconds: float


@record
class ListRules:
    seq: int


@record
class EvaluateRule:
    seq: int
    rule: int
    snapshot: int
    now: datetime


@record
class ComputeProperties:
    requests: Sequence[PropertyRequest]


@record
class ComputeEach:
    requests: Sequence[PropertyRequest]


@record
class MigrateProperties:
    requests: Sequence[PropertyRequest]


@record
class Withdraw:
    rules: Mapping[str, str]
    """Each with the reason."""


@record
class CheckNative:
    pass


Streamed: TypeAlias = EvaluateEach | ComputeEach
"""Requests with several replies, so that the caller sees which message takes long."""
Request: TypeAlias = (
    RunRound
    | ArrivalRequest
    | EvaluateMessages
    | ListRules
    | EvaluateRule
    | ComputeProperties
    | MigrateProperties
    | Withdraw
    | CheckNative
    | Streamed
)
