"""Broken and half-broken queries, with Saxon as judge: what one takes for a syntax error, so does the other.

Where Saxon departs from the recommendation the corpus says so (`beyond-saxon.txt`), and such mutations are passed over.
"""

from __future__ import annotations

import random
import re

import saxonche

from demaq.errors import ProgramError
from demaq.language import parse_query
from tests.support.drawing import example_count
from tests.support.language.corpus import cases

MUTATIONS = example_count(10_000, "QUERY_MUTATIONS")
SYNTAX = ("XPST0003", "XQST0118", "XQST0090", "XQST0022", "XQST0087")
TOKENS = re.compile(r'\s+|[\w.-]+|"[^"]*"|.', re.DOTALL)
CODE = re.compile(r"\b[A-Z]{4}\d{4}\b")

QUIRKS = re.compile(
    "|".join(
        [
            # Saxon refuses these
            r"\b(declare|import|for)\b",  # as first step
            r"\(#",  # unusual pragmas
            r"<\?|/<!--",  # processing instructions with line breaks, and after a slash
            r"namespace\s*\{\s*\}",  # an empty prefix expression
            r"\)\s*\(",  # (name)(…)
            r"\)\s*\?",  # (name)?key
            r"/\s*%",  # annotated functions after a slash
            r"!\s*/",  # a slash after `!`, unless a name follows
            r"Q\{[^}]*\}(?![\w*])",  # a constructor named Q
            r"[^\x00-\u00ff]",  # names that XML's fifth edition added
            # and accepts these
            r"\d\.?[eE]",  # numbers such as 1e
            r"CDATA",  # unclosed
            r"::\s*\(|@\s*\(",  # node tests in parentheses
            r",\s*\)",  # trailing commas
            r"[\x00-\x1f]",
            r"empty-sequence|\{\{",
            r"\b(instance|treat|castable)\b.*\b(treat|cast|castable)\b",  # in an order that the grammar does not have
            r"xmlns[\w:.-]*\s*=\s*(\"[^\"]*<|'[^']*<)",
            r"->|\b(element|attribute)\s*\([^)]*\|",  # XQuery 4
        ]
    )
)


def test_saxon_and_we_agree_on_what_is_no_query(chance: random.Random) -> None:
    processor = saxonche.PySaxonProcessor(license=False)
    queries = [text for name, text in cases("accepted") if not name.startswith(("parse-only", "library", "beyond"))]
    tokens = [token for text in queries for token in TOKENS.findall(text)]
    disagreements = []
    judged = refused = 0
    while judged < MUTATIONS:
        text = mutated(chance.choice(queries), tokens, chance)
        if QUIRKS.search(text):
            continue
        judged += 1
        verdict = saxon_says(processor, text)
        if is_query(text):
            if verdict in SYNTAX:
                disagreements.append(f"we accept, Saxon says {verdict}: {text}")
            continue
        refused += 1
        if verdict == "fine":
            disagreements.append(f"we refuse, Saxon accepts: {text}")
    assert not disagreements, "\n".join(disagreements[:10])
    assert MUTATIONS / 10 < refused < MUTATIONS * 9 / 10, "both verdicts are frequent"


def mutated(text: str, tokens: list[str], chance: random.Random) -> str:
    found = TOKENS.findall(text)
    for _ in range(chance.choice([1, 1, 2])):
        place = chance.randrange(len(found))
        match chance.randrange(5):
            case 0 if len(found) > 1:
                del found[place]
            case 1:
                found.insert(place, chance.choice(found))
            case 2:
                other = chance.randrange(len(found))
                found[place], found[other] = found[other], found[place]
            case 3:
                found[place] = chance.choice(tokens)
            case _:
                found.insert(place, chance.choice(tokens))
    return "".join(found)


def is_query(text: str) -> bool:
    try:
        parse_query(text)
    except ProgramError:
        return False
    return True


def saxon_says(processor: saxonche.PySaxonProcessor, text: str) -> str:
    """The code of the first error, or `fine`."""
    try:
        processor.new_xquery_processor().run_query_to_value(query_text=text)
    except saxonche.PySaxonApiError as error:
        found = CODE.search(str(error))
        return found.group() if found else "unknown"
    return "fine"
