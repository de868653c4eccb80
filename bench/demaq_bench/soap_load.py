"""What SOAP costs a node, compared with the same messages as plain XML: as it is, signed, in sequences, and both.

All envelopes of a turn are written and signed before it begins: a signature costs the client nearly as much as the
node, and a signed request that was used is refused as a replay. Each connection has a sequence of its own. CPU time is
measured besides speed, because it depends less on what else the machine does.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.soap.policy.statement_policies import SECURITY, read_extension_policy
from demaq.soap.security import OwnKey, Protection
from demaq.store.sqlite import SqliteStore
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.gateway_load import BODIES, RATIO, SPEED, WARM_UP_SHARE, percentiles
from demaq_bench.http_load import Answered, Task, run
from demaq_bench.offer_requests import transform_message
from demaq_bench.server_processes import ListeningNode
from demaq_bench.soap_envelopes import EnvelopeWriter, make_headers
from demaq_bench.soap_keys import make_keys
from demaq_bench.soap_sequences import SourceSequence
from demaq_bench.workloads import APPLICATIONS

APPLICATION = APPLICATIONS / "soap.dmq"
POLICY = APPLICATIONS / "soap-signed.xml"
ACTION = "urn:demaq-bench/offer"
GROUP = "SOAP requests accepted"
NODE_CPU, CPU_RATIO, CLIENT_CPU = "node CPU", "node CPU, ratio", "client CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProtocol:
    """How messages are sent, and to which queue."""

    name: str
    queue: str
    is_soap: bool = True
    is_signed: bool = False
    is_reliable: bool = False

    @property
    def status(self) -> int:
        """What the answer to a request must be: in a sequence it has an acknowledgement, otherwise nothing."""
        return 200 if self.is_reliable else 202


XML = MeasuredProtocol(name="XML", queue="xml", is_soap=False)
PROTOCOLS = (
    XML,
    MeasuredProtocol(name="SOAP", queue="soap"),
    MeasuredProtocol(name="SOAP, signed", queue="signed", is_signed=True),
    MeasuredProtocol(name="SOAP, reliable", queue="reliable", is_reliable=True),
    MeasuredProtocol(name="SOAP, both", queue="both", is_signed=True, is_reliable=True),
)


def measure(
    requests: Mapping[int, int], runs: int, folder: Path | None, say: Callable[[str], None]
) -> Iterator[Figure]:
    """Measure so many requests in each run, by the number of connections. All files are removed in the end."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        settings, key = make_keys(Path(own))
        store = Path(own) / "node"
        with ListeningNode(APPLICATION, store, "--settings", str(settings)) as node:
            turns = _SoapTurns(node, key)
            for connections, count in requests.items():
                say(f"SOAP on {connections} connections, {runs} runs of {count:,} requests, in turns")
                yield from turns.measure(connections, count, runs)
            _expect_all(store, turns.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Script:
    """What one system is asked in a turn."""

    task: Task
    sequences: tuple[SourceSequence, ...] = ()


class _SoapTurns:
    """Asks one node by all protocols in turns, every other time backwards."""

    def __init__(self, node: ListeningNode, key: OwnKey) -> None:
        self.sent: dict[str, int] = dict.fromkeys([protocol.queue for protocol in PROTOCOLS], 0)
        """How many messages each queue has accepted."""
        security = read_extension_policy(SECURITY, POLICY).security
        assert security is not None, "that is what the file is about"
        self._protection = Protection(requirements=security.request, own_key=key)
        self._node = node
        self._turns = 0

    def measure(self, connections: int, requests: int, runs: int) -> Iterator[Figure]:
        self._turn(connections, -(-requests // WARM_UP_SHARE))
        found = [self._turn(connections, requests) for _ in range(runs)]
        plain = [turn[XML.name] for turn in found]
        for protocol in PROTOCOLS:
            answered = [turn[protocol.name] for turn in found]
            yield from compare(answered, plain, {"connections": connections, "system": protocol.name})

    def _turn(self, connections: int, requests: int) -> dict[str, Answered]:
        self._turns += 1
        each = -(-requests // connections)
        scripts = [(protocol, self._write(protocol, connections, each)) for protocol in PROTOCOLS]
        found: dict[str, Answered] = {}
        for protocol, script in scripts[:: -1 if self._turns % 2 else 1]:
            found[protocol.name] = run(script.task)
            self.sent[protocol.queue] += connections * each
            for sequence in script.sequences:
                sequence.end()
        return found

    def _write(self, protocol: MeasuredProtocol, connections: int, each: int) -> _Script:
        """Write so many messages for each connection."""
        address = f"{self._node.address}/{protocol.queue}"
        bodies = [transform_message(number % BODIES).decode() for number in range(each)]
        task = Task(
            address=address,
            bodies=tuple(bodies),
            connections=connections,
            requests=connections * each,
            status=protocol.status,
            server=self._node.pid,
        )
        if not protocol.is_soap:
            return _Script(task=task)
        task = replace(task, bodies=(), headers=make_headers(ACTION))
        writer = EnvelopeWriter(address, self._protection if protocol.is_signed else None)
        if not protocol.is_reliable:
            written = [tuple([writer.write(ACTION, body) for body in bodies]) for _ in range(connections)]
            return _Script(task=replace(task, scripts=tuple(written)))
        sequences = tuple([SourceSequence.create(writer) for _ in range(connections)])
        written = [sequence.write_messages(ACTION, bodies) for sequence in sequences]
        return _Script(task=replace(task, scripts=tuple(written)), sequences=sequences)


def compare(answered: Sequence[Answered], plain: Sequence[Answered], at: Place) -> Iterator[Figure]:
    """Yield the figures of the turns of one system, and how they relate to those of plain XML in the same turns."""
    speeds = tuple([turn.speed for turn in answered])
    costs = tuple([_microseconds(turn.server_cpu_seconds, turn) for turn in answered])
    others = [_microseconds(turn.server_cpu_seconds, turn) for turn in plain]
    is_known = all([*costs, *others])  # the system may not tell
    yield _median(SPEED, speeds, "requests/s", at)
    if is_known:
        yield _median(NODE_CPU, costs, "µs", at)
    yield _median(CLIENT_CPU, tuple([_microseconds(turn.client_cpu_seconds, turn) for turn in answered]), "µs", at)
    if at["system"] != XML.name:
        yield _median(RATIO, tuple([own / turn.speed for own, turn in zip(speeds, plain, strict=True)]), "", at)
        if is_known:
            yield _median(CPU_RATIO, tuple([own / other for own, other in zip(costs, others, strict=True)]), "", at)
    yield from percentiles(answered, GROUP, at)


def _median(name: str, runs: tuple[float, ...], unit: str, at: Place) -> Figure:
    return Figure(name, statistics.median(runs), unit, group=GROUP, at=at, runs=runs)


def _microseconds(seconds: float, turn: Answered) -> float:
    """Return the time for one request."""
    return seconds / len(turn.milliseconds) * 1e6


def _expect_all(store: Path, sent: Mapping[str, int]) -> None:
    """What was accepted is there, once. Raises WrongResult."""
    with closing(SqliteStore.open_readonly(store)) as opened:
        counts = opened.counts()
    for queue, expected in sent.items():
        found = counts.get(queue, (0, 0))[0]
        if found != expected:
            raise WrongResult(f"queue {queue}: {found:,} messages for {expected:,} accepted requests")
