"""Tests of the time at which a follower was last caught up."""

from __future__ import annotations

from pykbroker.core.replication.follower_state import FollowerState

LAG_MS_MAX = 10
NEVER = float("-inf")


def test_a_follower_that_has_all_records_is_caught_up_however_long_ago_it_fetched() -> None:
    state = FollowerState(NEVER)
    state.note_fetch(5, 0, 5, -1, now_ms=100)
    assert state.is_caught_up(5, 1_000_000, LAG_MS_MAX)
    assert state.is_caught_up(6, 110, LAG_MS_MAX)
    assert not state.is_caught_up(6, 111, LAG_MS_MAX)


def test_a_follower_that_reached_the_end_of_its_previous_fetch_was_caught_up_then() -> None:
    state = FollowerState(NEVER)
    state.note_fetch(0, 0, 5, -1, now_ms=100)
    assert state.caught_up_ms == NEVER
    state.note_fetch(5, 0, 9, -1, now_ms=103)
    assert state.caught_up_ms == 100
    state.note_fetch(8, 0, 12, -1, now_ms=106)
    assert state.caught_up_ms == 100


def test_a_session_repeats_the_fetch_of_a_follower_that_has_all_records() -> None:
    state = FollowerState(NEVER)
    state.note_fetch(5, 0, 5, -1, now_ms=100)
    state.note_session(150)
    assert state.caught_up_ms == 150
    state.note_fetch(5, 0, 8, -1, now_ms=160)
    state.note_session(170)
    assert state.caught_up_ms == 150


def test_a_session_of_an_earlier_leader_epoch_does_not_catch_a_follower_up() -> None:
    """The high watermark would otherwise wait for a replica that has left the ISR."""
    state = FollowerState(float("-inf"))
    state.note_session(1000.0)
    assert not state.is_caught_up(5, 1001.0, 30_000.0)
