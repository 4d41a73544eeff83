"""Tests that the simulation finds planted bugs of transactions, which authors of brokers have made before."""

from __future__ import annotations

import msgspec
import pytest

from pykbroker.apis.records.produce.admit import ADDED_VERSION_FIRST
from pykbroker.apis.records.produce.produce import Produce
from pykbroker.core.log.producers import Producers, ProducerState
from pykbroker.core.txn import partitions
from pykbroker.core.txn.transaction import Transaction
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.log.reader import LogReader
from tests.unit.sim.planted import SEEDS_MAX, found

pytestmark = pytest.mark.timeout(240)  # The first seed may find nothing after a change in the order of tasks.

begin = Producers.__init__


async def a_producer_snapshot_loses_open_transactions(simulation: Simulation) -> list[str]:
    def closed(producers, entries=()):
        for one in entries:
            one.txn_first_offset = -1
        begin(producers, entries)

    Producers.__init__ = closed
    return await found(simulation, "transactions", "restart", seconds=30)


async def a_fenced_producer_may_write(simulation: Simulation) -> list[str]:
    def open_to_anybody(context, request):
        return context.of_producer(request.transactional_id, request.producer_id)

    partitions._open_to = open_to_anybody
    ProducerState.check_epoch = lambda producer, epoch: None
    return await found(simulation, "transactions", "stall")


ask = Produce._in_transaction


async def transactions_begin_without_verification(simulation: Simulation) -> list[str]:
    def unasked(produce, context, request, transactional_id):
        if context.version >= ADDED_VERSION_FIRST:
            return ask(produce, context, request, transactional_id)
        return produce._append(context, request)

    Produce._in_transaction = unasked
    Producers.check_verified = lambda producers, *about: None
    return await found(simulation, "transactions", "stall")


fenced = Transaction.fenced


async def a_timed_out_transaction_is_aborted_but_not_fenced(simulation: Simulation) -> list[str]:
    def unfenced(transaction, **about):
        return msgspec.structs.replace(fenced(transaction, **about), epoch=transaction.epoch)

    Transaction.fenced = unfenced
    return await found(simulation, "transactions", "stall")


async def a_restart_forgets_aborted_transactions(simulation: Simulation) -> list[str]:
    async def unread(log, segment):
        segment.aborted_unread = False

    LogReader._read_aborted = unread
    return await found(simulation, "transactions", "restart")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (a_producer_snapshot_loses_open_transactions, "aborted read", 2),
        (a_fenced_producer_may_write, "zombie", 1),
        (transactions_begin_without_verification, "a hanging transaction", 23),
        (a_timed_out_transaction_is_aborted_but_not_fenced, "aborted read", 1),
        (a_restart_forgets_aborted_transactions, "aborted read", 0),
    ],
)
def test_a_planted_bug_of_transactions_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
