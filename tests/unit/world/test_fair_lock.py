"""Tests of the lock whose waiters take turns by key."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pykbroker.world.fair_lock import FairLock, key_of_host


class Users:
    """Tasks that use a lock, each with a name that begins with its key."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery, self._lock = nursery, FairLock()
        self.done: list[str] = []
        self.scopes: dict[str, trio.CancelScope] = {}
        self.gate = trio.Event()

    async def start(self, *names: str) -> None:
        for name in names:
            self._nursery.start_soon(self._use, name)
            await trio.testing.wait_all_tasks_blocked()

    async def _use(self, name: str) -> None:
        with trio.CancelScope() as self.scopes[name]:
            async with self._lock.turn(name[0]):
                await self.gate.wait()
                self.done.append(name)


async def test_a_key_with_many_waiters_delays_another_key_by_one_turn() -> None:
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.start("a1", "a2", "a3", "a4", "b1", "c1", "b2")
        users.gate.set()
    assert users.done == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_a_cancelled_waiter_leaves_its_turn_to_the_next_one() -> None:
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.start("a1", "b1", "c1", "c2", "d1")
        for name in ("b1", "c1"):
            users.scopes[name].cancel()
        await trio.testing.wait_all_tasks_blocked()
        users.scopes["d1"].cancel()  # its turn may come before it learns of it
        users.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        await users.start("e1")
    assert users.done == ["a1", "c2", "e1"]


async def test_a_waiter_that_is_cancelled_once_it_has_its_turn_passes_it_on() -> None:
    async with trio.open_nursery() as nursery:
        users = Users(nursery)
        await users.start("a1", "b1", "c1")
        users.scopes["b1"].cancel()
        users.scopes["a1"].cancel()  # the lock is released to b1, which is cancelled already
        users.gate.set()
    assert users.done == ["c1"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8:0:0:ffff::9", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("no:address", "no:address", True),
        ("no:address", "no:other", False),
    ],
)
def test_all_addresses_of_an_ipv6_network_have_one_key(one: str, other: str, is_same: bool) -> None:
    assert (key_of_host(one) == key_of_host(other)) is is_same
