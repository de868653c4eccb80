"""Executors as operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from demaq.spark.executor_list import Executor, describe_executors


@dataclass
class Summary:
    """As Spark tells it."""

    name: str
    place: str
    cores: int
    tasks: int

    def id(self) -> str:
        return self.name

    def hostPort(self) -> str:  # noqa: N802  # the name is Spark's
        return self.place

    def totalCores(self) -> int:  # noqa: N802  # as above
        return self.cores

    def activeTasks(self) -> int:  # noqa: N802  # as above
        return self.tasks


def test_executors_are_in_the_order_of_their_numbers_without_the_driver_of_a_cluster():
    found = describe_executors(
        [
            Summary("10", "b.example:4041", 2, 0),
            Summary("driver", "a.example:4040", 0, 0),
            Summary("9", "[::1]:4042", 4, 3),
        ]
    )
    assert found == [Executor("9", "[::1]", 4, 3), Executor("10", "b.example", 2, 0)]


def test_the_driver_of_a_local_master_is_its_executor():
    assert describe_executors([Summary("driver", "a.example:4040", 5, 2)]) == [Executor("driver", "a.example", 5, 2)]
