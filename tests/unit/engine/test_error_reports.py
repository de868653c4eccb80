"""What is read from messages in error queues, whatever is in them."""

from __future__ import annotations

import pytest

from demaq.engine.error_routing import read_error

ERROR = "<error>{}<queue>q</queue><code>c</code><initialMessage><m/></initialMessage></error>"


def test_the_first_element_of_an_error_message_is_its_kind():
    report = read_error(ERROR.format("<refused/>"))

    assert report is not None
    assert (report.kind, report.queue, report.code, report.initial) == ("refused", "q", "c", "<m/>")


@pytest.mark.parametrize("first", ["<!-- refused -->", "<?refused now?>"])
def test_a_message_that_begins_with_something_else_than_an_element_is_no_error_message(first: str):
    """lxml has a function for the name of a comment, which was shown as the kind."""
    assert read_error(ERROR.format(first)) is None
