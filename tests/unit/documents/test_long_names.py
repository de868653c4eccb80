"""A name that is too long is found wherever it stands, although most texts are not searched for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demaq.xml_bounds import _LONG_ATTRIBUTE_NAME, _LONG_ELEMENT_NAME, NAME_CHARACTERS_MAX, _may_have_long_name

FILLERS = st.text(st.sampled_from("ab <>/=\n\r\t'\""), max_size=12)
LENGTHS = st.integers(NAME_CHARACTERS_MAX - 3, NAME_CHARACTERS_MAX + 3)


@given(
    st.integers(0, 3 * NAME_CHARACTERS_MAX),
    FILLERS,
    LENGTHS,
    st.sampled_from(["<{}>", "<a {}=''/>", " {} = '"]),
    FILLERS,
)
def test_no_long_name_is_overlooked(before: int, filler: str, length: int, form: str, after: str) -> None:
    pattern = (filler or " ") * (before // len(filler or " ") + 1)
    text = pattern[:before] + form.format("n" * length) + after
    has_long_name = bool(_LONG_ELEMENT_NAME.search(text) or _LONG_ATTRIBUTE_NAME.search(text))
    assert _may_have_long_name(text) or not has_long_name
    if length > NAME_CHARACTERS_MAX and form == "<{}>":
        assert has_long_name


def test_words_that_are_no_longer_than_a_name_may_be_are_not_searched() -> None:
    assert not _may_have_long_name(("a" * NAME_CHARACTERS_MAX + " ") * 5)
    assert _may_have_long_name("a" * (NAME_CHARACTERS_MAX + 1))
