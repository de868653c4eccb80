"""What is put into an echo queue says when it comes back, and where."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.draft import Draft
from demaq.language.system_properties import ECHO_PROPERTIES


def timers_without_end(draft: Draft) -> Iterator[Diagnostic]:
    for body in draft.bodies:
        for enqueue in body.enqueues:
            queue = body.names.parts.get(enqueue.queue)
            if draft.kind_of(queue) != "echo":
                continue
            given = [body.names.parts.get(item.name) for item in enqueue.properties]
            missing = [name for name in ECHO_PROPERTIES if name not in given]
            if missing:
                yield warning(
                    "DQ1504",
                    f'"{queue}" is an echo queue and is not told the {" nor the ".join(missing)}: this always fails',
                    enqueue.queue.at,
                    'with timeout value 60 with target value "QUEUE"',
                )
