"""Messages whose texts are atomic values of every kind, and regular expressions."""

from __future__ import annotations

from random import Random

CONTENT = {
    "i": ("0", "1", "7", "42", "-3", "007", "+5", " 12 ", "1000000", "123456789012345678901234567890", "-0"),
    "d": (
        "0.5",
        "1.50",
        "-2.25",
        ".75",
        "3.",
        "100.00",
        "19.99",
        "0.000001",
        "1234567.891",
        "-0.0",
        "12345678901234.5678",
    ),
    "f": ("1e3", "1.5E-3", "-2e0", "INF", "-INF", "NaN", "1e-7", "123456789e3", "0.1", "-0", "2.5", "1E+2"),
    "s": (
        "",
        "x",
        "y z",
        "  a  b ",
        "Ärger",
        "ß",
        "𝄞 clef",
        "A-1,B-2",
        "2020-01-01",
        "a.b.c",
        "ΑΣ",
        "true",
        "x1y22",
        "é",
    ),
    "b": ("true", "false", "1", "0", " true "),
    "day": (
        "2020-02-29",
        "1999-12-31",
        "2024-01-31",
        "2020-01-01Z",
        "2020-01-01+02:00",
        "2021-06-15-05:00",
        " 2022-03-01 ",
    ),
    "at": (
        "2020-02-29T23:59:59",
        "2020-01-01T00:00:00Z",
        "2020-01-01T12:30:15.5+02:00",
        "1999-12-31T24:00:00",
        "2021-06-15T08:00:00.123456-05:00",
        "2020-01-01T02:00:00+02:00",
    ),
    "time": ("10:00:00", "23:59:59.999", "00:00:00Z", "12:30:00+05:30", "24:00:00", "04:30:15.25-08:00"),
    "span": ("P1D", "PT36H", "-PT90M", "PT0S", "P2DT3H4M5.5S", "PT0.001S", "P1DT25H"),
    "months": ("P1Y", "P14M", "-P3M", "P0M", "P2Y6M"),
}
"""The children of the message, by the kind of text that they hold."""
STRANGE = ("", "x", "1_0", "٣", "12a", "2020-02-30", "2020-13-01", "P", "0000-01-01", "12020-01-01", "1e400", "0x10")
"""What may be in any of them, rarely."""
PATTERNS = (
    *(
        "[0-9]+",
        "\\d+",
        "[a-z]",
        "^x",
        "z$",
        "\\s+",
        "(a|b)",
        "[^a-z]",
        "\\w+",
        "[A-Z]-(\\d)",
        ",",
        "\\.",
        "x?y",
        "[\\d.]+",
    ),
    *(
        "[a-z-[xy]]",
        "\\p{Lu}",
        "\\P{L}",
        "a{1,2}",
        "(?:x|y)z*",
        ".",
        "^.*$",
        "[-a]",
        "\\i\\c*",
        "(x)(1)?",
        "a*?b",
        "é|ß",
    ),
)


def draw_values(random: Random) -> str:
    """Return a message: a few texts of every kind, one in eight messages with some that are not of their kind."""
    is_strange = random.randrange(8) == 0

    def text(kind: str) -> str:
        if random.randrange(2):
            return draw_text(random, kind)
        return random.choice(STRANGE if is_strange and random.randrange(6) == 0 else CONTENT[kind])

    attributes = "".join([f' {kind}="{text(kind)}"' for kind in CONTENT if random.randrange(3)])
    children = "".join(
        [f"<{kind}>{text(kind)}</{kind}>" for kind in CONTENT for _ in range(random.choice((0, 1, 2, 2, 3)))]
    )
    return f"<r{attributes}>{children}</r>"


def draw_text(random: Random, kind: str) -> str:
    """Return any text of a kind."""
    digits = lambda: str(random.randrange(10 ** random.randint(1, 12)))  # noqa: E731
    sign = random.choice(("", "", "-"))
    clock = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    clock += random.choice(("", "", ".5", ".25", ".123"))
    zone = random.choice(("", "", "Z", "+01:00", "-11:30", "+14:00"))
    day = f"{random.randint(1970, 2040)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    match kind:
        case "i":
            return sign + digits()
        case "d":
            return f"{sign}{random.randrange(100_000)}.{random.randrange(100):02}"
        case "f":
            return random.choice((f"{sign}{digits()}e{random.randint(-12, 12)}", repr(random.uniform(-1000, 1000))))
        case "b":
            return random.choice(CONTENT["b"])
        case "day":
            return day + zone
        case "at":
            return f"{day}T{clock}{zone}"
        case "time":
            return clock + zone
        case "span":
            parts = f"{random.randrange(40)}D", f"{random.randrange(100)}H", f"{random.randrange(100)}M"
            return f"{sign}P{random.choice((*parts[:1], ''))}T{random.choice(parts[1:])}{random.randrange(100)}S"
        case "months":
            return f"{sign}P{random.randrange(5)}Y{random.randrange(40)}M"
    letters = "abcXYZ 0123-_.,;ÄßéΣς𝄞ﬀ€"
    return "".join(random.choices(letters, k=random.randrange(12)))


def draw_pattern(random: Random, depth: int = 2) -> str:
    """Return a regular expression (Functions and Operators 3.1, 5.6.1)."""
    classes = ("[a-c]", "[^a-z]", "[0-9]", "[X-Z-[Y]]", "\\d", "\\w", "\\s", "\\S", "\\p{L}", "[\\d.,]", "[-_]", ".")
    quantifiers = ("", "", "", "?", "*", "+", "{2}", "{1,2}", "*?", "+?")
    pieces: list[str] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        atom = random.choice((*"abcX01-,", "é", "\\.", *classes))
        if depth and random.randrange(4) == 0:
            atom = f"({random.choice(('', '?:'))}{draw_pattern(random, depth - 1)})"
        pieces.append(atom + random.choice(quantifiers))
    found = "".join(pieces)
    if random.randrange(5) == 0:
        found += "|" + random.choice(("a", "X", "\\d", "ab"))
    if depth == 2 and random.randrange(5) == 0:
        found = random.choice((f"^{found}", f"{found}$"))
    return found
