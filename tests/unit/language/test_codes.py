"""Every code is explained, and every code can happen."""

import re
from pathlib import Path

import demaq.language
from demaq.language.codes import CODES, severity
from tests.support.language.error_cases import ERROR_CASES
from tests.support.language.warning_cases import WARNING_CASES

LANGUAGE = Path(demaq.language.__file__).parent

# Tested in test_checks_errors, test_namespaces and test_checks_policies beside the tables: a table holds text, and these
# need other files than that.
TESTED_APART = {"DQ0102", "DQ0103", "DQ0104", "DQ1204", "DQ0608", "DQ0609", "DQ1507"}
TESTED_WITH_THE_COMPILER = {"DQ0702", "DQ0703", "DQ0704"}


def test_every_code_has_a_test_that_triggers_it():
    errors = {code for _, codes, _ in ERROR_CASES for code in codes.split()}
    warnings = {code for _, codes, _ in WARNING_CASES for code in codes.split()}

    assert errors | TESTED_APART | TESTED_WITH_THE_COMPILER | warnings == set(CODES)


def test_every_code_that_the_language_uses_is_in_the_registry():
    used = set()
    for path in LANGUAGE.rglob("*.py"):
        if path.name != "codes.py":
            used.update(re.findall(r'"(DQ\d{4})"', path.read_text()))

    assert used <= set(CODES)


def test_errors_and_warnings_are_distinguished_by_their_codes():
    assert {severity(code) for _, codes, _ in ERROR_CASES for code in codes.split()} == {"error"}
    assert {severity(code) for _, codes, _ in WARNING_CASES for code in codes.split()} == {"warning"}


def test_every_code_is_explained_and_comes_with_a_way_to_mend_it():
    for code, entry in CODES.items():
        assert entry.title, code
        assert entry.explanation.endswith("."), code
        assert entry.mending, code
