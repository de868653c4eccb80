"""Applications of any size with all kinds of queues, for pictures of their flow."""

from __future__ import annotations

from random import Random

WORDS = ("order", "invoice", "claim", "payment", "customer", "stock", "ship", "audit", "quote", "größe", "注文")
KINDS = ("basic", "mailbox", "incomingGateway", "outgoingGateway", "echo")


def draw_application(chance: Random, queues: int) -> str:
    """Return the text of an application with so many queues: mostly a flow, with cycles, timers, slicings and errors."""
    names = [f"{chance.choice(WORDS)}{'-' * (chance.random() < 0.3)}{chance.choice(WORDS)}{n}" for n in range(queues)]
    kinds = dict(zip(names, chance.choices(KINDS, (12, 1, 1, 2, 1), k=queues), strict=True))
    kinds[names[0]] = "incomingGateway"
    kinds[names[-1]] = "basic"
    plain = [name for name in names if kinds[name] == "basic"]
    ruled = [name for name in names if kinds[name] in ("basic", "incomingGateway")]
    lines = [f"module drawn errorqueue {names[-1]};"] if chance.random() < 0.5 else []
    for name in names:
        address = f' endpoint "http://x.invalid/{name}"' if kinds[name] == "outgoingGateway" else ""
        errors = f" errorqueue {chance.choice(plain)}" if kinds[name] == "basic" and chance.random() < 0.08 else ""
        lines.append(f"create queue {name} kind {kinds[name]}{address}{errors}")
    slicings = [f"slicing{n}" for n in range(max(1, queues // 8))]
    for n, slicing in enumerate(slicings):
        drawn = [
            chance.choice(plain),
            *chance.sample(names, min(queues, chance.randint(0, 4))),
        ]  # no rule for timers only
        members = ", ".join(dict.fromkeys(drawn))
        lines.append(f"create property key{n} as xs:string queue {members} value string(//id)")
        lines.append(f"create slicing {slicing} on key{n}")
    targets = [name for name in names if kinds[name] != "incomingGateway"]
    for n in range(int(queues * chance.uniform(0.8, 1.8))):
        source = chance.choice(ruled) if chance.random() < 0.8 else chance.choice(slicings)
        begin = names.index(source) if source in names else chance.randrange(queues)
        actions = [_draw_enqueue(chance, begin, targets, kinds, plain) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        if source in slicings and chance.random() < 0.4:
            actions.append("do reset")
        elif chance.random() < 0.05:
            actions.append(f'do reset {chance.choice(slicings)} key "1"')
        errors = f" errorqueue {chance.choice(plain)}" if chance.random() < 0.05 else ""
        lines.append(f"create rule rule{n} for {source}{errors}\n  if (//a{n}) then ({', '.join(actions)})")
    return "\n".join(lines) + "\n"


def _draw_enqueue(chance: Random, begin: int, targets: list[str], kinds: dict[str, str], plain: list[str]) -> str:
    near = max(0, min(len(targets) - 1, begin + int(chance.gauss(3, 4))))
    target = targets[near] if chance.random() < 0.9 else chance.choice(targets)
    if kinds[target] != "echo":
        return f"do enqueue <x>{{ //id }}</x> into {target}"
    later = f'"{chance.choice(plain)}"' if chance.random() < 0.8 else "string(//id)"
    return f'do enqueue <x/> into {target} with timeout value xs:dayTimeDuration("PT1H") with target value {later}'
