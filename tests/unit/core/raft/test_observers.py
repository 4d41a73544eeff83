"""The observers of the metadata log, as DescribeQuorum lists them."""

from __future__ import annotations

from pykbroker.core.raft.observers import FORGOTTEN_MS, Observers

DIRECTORY = b"d" * 16


def test_an_observer_is_caught_up_when_it_fetches_at_the_end_of_the_log() -> None:
    observers = Observers()
    observers.fetched(2, DIRECTORY, 5, 10, 1000)
    (found,) = observers.current(1000)
    assert (found.log_end_offset, found.fetched_ms, found.caught_up_ms) == (5, 1000, -1)
    observers.fetched(2, DIRECTORY, 10, 12, 1500)  # it has all records of the time of its last fetch
    assert observers.current(1500)[0].caught_up_ms == 1000
    observers.fetched(2, DIRECTORY, 12, 12, 2000)
    assert observers.current(2000)[0].caught_up_ms == 2000


def test_an_observer_is_forgotten_after_some_minutes_and_the_others_are_listed_by_id() -> None:
    observers = Observers()
    observers.fetched(3, DIRECTORY, 1, 1, 0)
    observers.fetched(5, DIRECTORY, 1, 1, 1)
    observers.fetched(2, DIRECTORY, 1, 1, 1)
    assert [one.replica_id for one in observers.current(FORGOTTEN_MS)] == [2, 3, 5]
    assert [one.replica_id for one in observers.current(FORGOTTEN_MS + 1)] == [2, 5]


def test_a_broker_with_another_directory_is_another_observer() -> None:
    observers = Observers()
    observers.fetched(2, DIRECTORY, 1, 1, 0)
    observers.fetched(2, b"e" * 16, 1, 1, 0)
    assert [one.directory_id for one in observers.current(0)] == [DIRECTORY, b"e" * 16]
