"""The poller of macOS, with the tests of the network that depend on a poller.

Its kqueue is one that is made of epoll (`kqueue_kernel`).
"""

from __future__ import annotations

import select
import socket

import pytest

from pykbroker.world import system_net
from pykbroker.world.system_poll import KqueuePoll
from tests.unit.world import kqueue_kernel
from tests.unit.world.test_system_net import (
    test_a_connection_that_wants_no_input_is_not_read_from,
    test_a_connection_with_more_input_resumes_after_the_other_connections,
    test_a_hang_up_of_a_connection_that_nothing_watches_closes_it,
    test_a_peer_that_disconnects_closes_its_connection,
    test_a_peer_that_does_not_read_delays_no_other_peer_and_is_not_read_from,
    test_a_peer_that_shuts_down_its_sending_side_is_sent_all_output,
    test_connections_wait_in_the_backlog_while_the_broker_has_no_room,
    test_no_hang_up_is_reported_while_the_peer_may_still_read,
)

__all__ = [
    "test_a_connection_that_wants_no_input_is_not_read_from",
    "test_a_connection_with_more_input_resumes_after_the_other_connections",
    "test_a_hang_up_of_a_connection_that_nothing_watches_closes_it",
    "test_a_peer_that_disconnects_closes_its_connection",
    "test_a_peer_that_does_not_read_delays_no_other_peer_and_is_not_read_from",
    "test_a_peer_that_shuts_down_its_sending_side_is_sent_all_output",
    "test_connections_wait_in_the_backlog_while_the_broker_has_no_room",
    "test_no_hang_up_is_reported_while_the_peer_may_still_read",
]


def poll_of_kqueue() -> KqueuePoll:
    return KqueuePoll(kqueue_kernel)


@pytest.fixture(autouse=True)
def kqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all networks use kqueue."""
    monkeypatch.setattr(system_net, "open_poll", poll_of_kqueue)


def test_each_filter_replaces_the_one_before() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        poll = poll_of_kqueue()
        for reads, writes, events in ((True, False, 1), (False, True, 1), (False, False, 0), (True, False, 1)):
            theirs.send(b"x")
            poll.watch(ours.fileno(), reads, writes)
            assert [len(poll.ready()) for _ in range(3)] == [events] * 3
        poll.forget(ours.fileno())
        assert not select.select([poll.fileno()], [], [], 0)[0]
        poll.close()
