"""What the HTTP API makes of requests: each condition counts, and what is wrong is refused with a status that says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.console.console_settings import ConsoleSettings
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import make_shop


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    folder: Path = tmp_path_factory.mktemp("api")
    client = ConsoleClient(ConsoleSettings(store=str(make_shop(folder)), open_role="administer"))
    yield client
    client.close()


@pytest.mark.parametrize("path", ["/api/purge", "/api/requeue"])
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"queue": "orders", "stat": "waits"}, "there is no field stat; did you mean state?"),
        ({"queue": "orders", "dry-run": True}, "there is no field dry-run"),
        ({"queue": "orders", "value": "17"}, "value is of a property, and no property is named"),
        ({"queue": "orders", "key": "17"}, "key is of a slicing, and no slicing is named"),
        ({"queue": "orders", "dry_run": "perhaps"}, "dry_run is true or false"),
        ({"queue": "order"}, "there is no queue order; did you mean orders?"),
        ({"rule": "chek"}, "there is no rule chek; did you mean check?"),
    ],
)
def test_a_condition_that_is_not_understood_is_refused_and_selects_nothing(
    client: ConsoleClient, path: str, fields: dict[str, object], said: str
):
    answer = client.call(path, {"why": "a test", **fields})
    assert answer.status == 400, answer.text
    assert answer.json["error"].startswith(said)


def test_a_search_with_an_unknown_parameter_is_refused(client: ConsoleClient):
    answer = client.get("/api/search?queue=orders&stat=waits")
    assert answer.status == 400
    assert "stat" in answer.json["error"]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"error": "*"}, 3),
        ({"error": "*", "text": "<messageId>nowhere</messageId>"}, 0),
        ({"error": "*", "xpath": "/error/initialMessage/order/@id = '22'"}, 1),
        ({"error": "*", "state": "done"}, 0),
        ({"error": "*", "property": "orderID", "value": "none"}, 0),
    ],
)
def test_errors_are_requeued_only_if_they_meet_all_conditions(
    client: ConsoleClient, fields: dict[str, object], count: int
):
    plan = client.call("/api/requeue", {**fields, "dry_run": True})
    assert plan.status == 200, plan.text
    assert plan.json["messages"] == count


def test_nothing_is_requeued_without_a_condition(client: ConsoleClient):
    answer = client.call("/api/requeue", {"why": "a test"})
    assert answer.status == 400
    assert answer.json["error"].startswith("say which errors")


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/messages/99999/trace", 404, "nothing is known of message 99999"),
        ("/api/messages/99999/why", 404, "there is no message 99999"),
        ("/api/messages/1/why?rule=chek", 400, "there is no rule chek; did you mean check?"),
        ("/api/search?xpath=//[", 400, "the expression is wrong"),
        ("/api/search?queue=order", 400, "there is no queue order; did you mean orders?"),
        ("/api/search?rule=chek", 400, "there is no rule chek; did you mean check?"),
        ("/api/search?slicing=orders&key=1", 400, "there is no slicing orders"),
        ("/api/slices?slicing=orders", 404, "there is no slicing orders"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_the_status_for_it(
    client: ConsoleClient, path: str, status: int, said: str
):
    answer = client.get(path)
    assert (answer.status, answer.json["error"][: len(said)]) == (status, said)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("pause", {"kind": "queue", "name": "order"}),
        ("pause", {"kind": "gateway", "name": "checked"}),
        ("redeliver", {"id": "1"}),
        ("redeliver", {"id": "99999"}),
    ],
)
def test_what_a_node_cannot_do_is_not_answered_as_if_it_had_too_much_to_do(
    client: ConsoleClient, path: str, fields: dict[str, str]
):
    assert client.call(f"/api/{path}", {"why": "a test", **fields}).status == 409


@pytest.mark.parametrize("path", ["pause", "resume", "redeliver", "purge", "requeue"])
@pytest.mark.parametrize("why", ["a\nb", "\x1b[31mred", "a\0b", "x" * 1001, "\ud800"])
def test_a_reason_is_one_line_of_text(client: ConsoleClient, path: str, why: str):
    fields = {"kind": "queue", "name": "orders"} if path in ("pause", "resume") else {"id": "1"}
    answer = client.call(f"/api/{path}", {**fields, "why": why})
    assert answer.status == 400, answer.text
    assert client.get("/api/pauses").json == []
