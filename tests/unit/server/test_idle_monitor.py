"""Who asks whether a node is idle is answered by a turn that began afterwards."""

from __future__ import annotations

import threading

from demaq.server.idle_monitor import IdleMonitor

SECONDS_MAX = 30.0


def test_a_turn_that_began_before_the_question_does_not_answer_it():
    monitor = IdleMonitor()
    monitor.begin_turn()
    ticket = monitor.ask()
    monitor.end_turn(is_idle=True)

    assert not monitor.wait(ticket, 0)

    monitor.begin_turn()
    monitor.end_turn(is_idle=True)
    assert monitor.wait(ticket, 0)


def test_a_turn_with_something_to_do_answers_no_caller():
    monitor = IdleMonitor()
    ticket = monitor.ask()
    monitor.begin_turn()
    monitor.end_turn(is_idle=False)

    assert not monitor.wait(ticket, 0)


def test_all_who_wait_are_answered_by_one_turn():
    monitor = IdleMonitor()
    tickets = [monitor.ask() for _ in range(3)]
    found: list[bool] = []
    waiting = [threading.Thread(target=lambda t=t: found.append(monitor.wait(t, SECONDS_MAX))) for t in tickets]
    for thread in waiting:
        thread.start()
    monitor.begin_turn()
    monitor.end_turn(is_idle=True)
    for thread in waiting:
        thread.join(SECONDS_MAX)

    assert found == [True, True, True]


def test_no_caller_waits_for_a_node_that_has_ended():
    monitor = IdleMonitor()
    ticket = monitor.ask()
    monitor.close()

    assert not monitor.wait(ticket, None)
