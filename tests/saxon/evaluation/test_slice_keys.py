"""Keys of slices are equal if the values are, however they are written."""

from __future__ import annotations

import pytest

from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.testing import Lab

EQUAL = {
    "boolean": ["1", "true"],
    "date": ["2026-01-01", "2026-01-01Z", "2026-01-01+00:00"],
    "dateTime": ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2025-12-31T24:00:00"],
    "dateTimeStamp": ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"],
    "decimal": ["1", "1.0", "01"],
    "double": ["0", "-0", "0e0"],
    "duration": ["P1Y", "P12M"],
    "gDay": ["---01", "---01Z", "---01+00:00"],
    "gMonth": ["--01", "--01Z"],
    "gMonthDay": ["--01-01", "--01-01Z"],
    "gYear": ["2026", "2026Z"],
    "gYearMonth": ["2026-01", "2026-01Z"],
    "hexBinary": ["ab", "AB"],
    "time": ["10:00:00", "10:00:00Z", "11:00:00+01:00"],
}


@pytest.mark.parametrize("evaluator", ["auto", "saxon"])
def test_values_that_are_equal_are_one_key_of_a_slicing(evaluator: EvaluatorName):
    types = "".join(
        [
            f"create queue {name} create property p{name} as xs:{name} queue {name} value /m "
            f"create slicing s{name} on p{name} create rule r{name} for s{name} if (/end) then do reset\n"
            for name in EQUAL
        ]
    )
    with Lab(types, evaluator=evaluator) as lab:
        for name, values in EQUAL.items():
            for value in values:
                lab.enqueue(name, f"<m>{value}</m>")
                lab.enqueue(name, "<m/>", {f"p{name}": value})
            [(key, count)] = lab.store.slice_keys(f"s{name}", None, 9)
            assert count == 2 * len(values), name
            assert len(lab.read_slice(f"s{name}", key)) == count, "a key as it is listed"
