"""ListTransactions matches transactional ids against a pattern in a thread, a few ids per call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import trio

from pykbroker.apis.transactions.list_transactions import ListTransactions
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.name_pattern import SHARE_STEPS_MAX, compiled
from pykbroker.core.txn.requests import FoundTransactions
from pykbroker.core.txn.transaction import Transaction
from pykbroker.machines.call import Call
from tests.unit.apis.calling import context, gone_through, work_of
from wire.messages.list_transactions import ListTransactionsRequest

HOSTILE = "((.*a|.*b){20}){20}"
IDS = [f"{number:05}{'ab' * 100}" for number in range(100)] + ["x" * 32_767]


class KnownTransactions:
    """A double of `TransactionRequests` with only the methods that ListTransactions calls."""

    async def listed(self, predicate: Callable[[Transaction], bool]) -> list[Transaction]:
        return [one for one in (Transaction(name, 7, 1000) for name in IDS) if predicate(one)]


class CountingOffLoop:
    """A double of `OffLoop` that records the number of ids in each call and the number of concurrent calls."""

    def __init__(self) -> None:
        self.shares: list[list[str]] = []
        self.patterns: list[object] = []
        self.here = self.most = 0

    async def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        self.here += 1
        self.most = max(self.most, self.here)
        self.shares.append(*args)
        self.patterns.append(function.__self__)  # type: ignore[attr-defined]
        await trio.lowlevel.checkpoint()
        self.here -= 1
        return function(*args)


async def listed(api: ListTransactions, pattern: str) -> list[str]:
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    answer = await work_of(api(context(2), request))
    return [one.transactional_id for one in gone_through(answer).transaction_states]


async def test_ids_are_matched_in_a_thread_a_few_at_a_time() -> None:
    elsewhere = CountingOffLoop()
    api = ListTransactions(KnownTransactions(), lambda: 0, elsewhere)  # type: ignore[arg-type]
    assert await listed(api, HOSTILE) == []
    assert [name for share in elsewhere.shares for name in share] == IDS
    pattern = compiled(HOSTILE)
    assert all(sum(map(pattern.steps, share)) <= SHARE_STEPS_MAX for share in elsewhere.shares[:-1])
    assert elsewhere.shares[-1] == IDS[-1:]
    assert await listed(api, "x+|00001.*") == [IDS[1], IDS[-1]]
    assert await listed(api, "") == IDS


async def test_concurrent_requests_alternate_in_matching_ids() -> None:
    elsewhere = CountingOffLoop()
    api = ListTransactions(KnownTransactions(), lambda: 0, elsewhere)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listed, api, HOSTILE)
        nursery.start_soon(listed, api, "[ab]")
    assert elsewhere.most == 1
    assert elsewhere.patterns.index(compiled("[ab]")) < len(elsewhere.patterns) - 2, (
        "a cheap search does not wait until an expensive one is complete"
    )


class Machines:
    """A double of `Runtime` with five coordinators; each has one transaction."""

    def __init__(self) -> None:
        self.asked = 0

    def ask_all(self, request: Any) -> Iterator[Call]:
        for number in range(5):
            self.asked += 1
            call = Call()
            call.settle(FoundTransactions((Transaction(f"{number}", 7, 1000),)))
            yield call


async def test_other_tasks_run_between_the_transactions_of_two_partitions() -> None:
    machines, seen = Machines(), set[int]()
    transactions = TransactionRequests(machines, None, 0)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            while machines.asked < 5:
                seen.add(machines.asked)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(look)
        found = await transactions.listed(lambda known: True)
    assert [one.transactional_id for one in found] == list("01234")
    assert len(seen) >= 2
