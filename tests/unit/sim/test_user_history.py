"""Tests of the history of a simulated user: which answers to a log-in are findings."""

from __future__ import annotations

import pytest

from pykbroker.sim.cluster.user_history import NO_PASSWORD, UserHistory

CONTROLLER, BROKER = 1, 2


def user(*passwords: str | None, acknowledged: bool = True) -> UserHistory:
    made = UserHistory("alice")
    for password in passwords:
        made.change(password)
    if acknowledged:
        made.acknowledge()
    return made


def said(history: UserHistory, password: str, *, accepted: bool, node_id: int = BROKER) -> str:
    return history.end(history.begin(node_id, password, is_controller=node_id == CONTROLLER), accepted=accepted)


@pytest.mark.parametrize("node_id", [CONTROLLER, BROKER])
def test_no_broker_may_accept_a_password_that_never_was(node_id):
    assert "lets in alice" in said(user("old", "new"), "wrong", accepted=True, node_id=node_id)
    assert said(user("old", "new"), "wrong", accepted=False, node_id=node_id) == ""


def test_the_controller_obeys_an_acknowledged_change_at_once_and_another_broker_later():
    for password, accepted in (("old", True), ("new", False)):
        assert said(user("old", "new"), password, accepted=accepted, node_id=CONTROLLER)
        assert said(user("old", "new"), password, accepted=accepted) == ""
        assert said(user("old", "new", acknowledged=False), password, accepted=accepted, node_id=CONTROLLER) == ""


def test_a_broker_never_goes_back_behind_its_answers():
    removed = user("old", NO_PASSWORD)
    assert said(removed, "old", accepted=False) == "", "the broker may not have applied the first change"
    assert said(removed, "old", accepted=True) == ""
    assert said(removed, "old", accepted=False) == ""
    assert "lets in alice with the password old after it has applied 2 changes" in said(removed, "old", accepted=True)
    removed.change("new")
    assert said(removed, "new", accepted=True) == ""
    assert "refuses alice" in said(removed, "new", accepted=False)
    assert said(removed, "old", accepted=True, node_id=3) == "", "another broker may be behind"


def test_a_change_during_a_log_in_may_decide_it_or_not():
    history = user("old")
    attempts = [history.begin(CONTROLLER, password, is_controller=True) for password in ("old", "new")]
    history.change("new")
    for attempt in attempts:
        assert history.end(attempt, accepted=True) == ""


def test_a_change_that_was_sent_again_is_the_last_one():
    history = user("old")
    history.requests = 1
    assert not history.is_final
    history.requests = 2
    assert history.is_final
