"""The alarm works for transactions: what authors of brokers have got wrong before is found by its name."""

from __future__ import annotations

import msgspec
import pytest

from pykbroker.apis.records.produce import ADDED_VERSION_FIRST, Produce
from pykbroker.core.log.producers import Producers, ProducerState
from pykbroker.core.txn import partitions
from pykbroker.core.txn.transaction import Transaction
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.log.reader import LogReader
from tests.unit.sim.planted import SEEDS_MAX, found

pytestmark = pytest.mark.timeout(240)  # the first seed may find nothing once the schedule of tasks has changed

begin = Producers.__init__


async def a_snapshot_forgets_open_transactions(simulation: Simulation) -> list[str]:
    def closed(producers, entries=()):
        for one in entries:
            one.txn_first_offset = -1
        begin(producers, entries)

    Producers.__init__ = closed
    return await found(simulation, "transactions", "restart", seconds=30)


async def a_fenced_epoch_may_write(simulation: Simulation) -> list[str]:
    def open_to_anybody(context, request):
        return context.of_producer(request.transactional_id, request.producer_id)

    partitions._open_to = open_to_anybody
    ProducerState.check_epoch = lambda producer, epoch: None
    return await found(simulation, "transactions", "stall")


ask = Produce._in_transaction


async def nobody_asks_the_coordinator_before_a_transaction_begins(simulation: Simulation) -> list[str]:
    def unasked(produce, context, request, transactional_id):
        if context.version >= ADDED_VERSION_FIRST:
            return ask(produce, context, request, transactional_id)
        return produce._append(context, request)

    Produce._in_transaction = unasked
    Producers.check_verified = lambda producers, *about: None
    return await found(simulation, "transactions", "stall")


fenced = Transaction.fenced


async def who_takes_too_long_is_aborted_and_not_fenced(simulation: Simulation) -> list[str]:
    def unfenced(transaction, *about):
        return msgspec.structs.replace(fenced(transaction, *about), epoch=transaction.epoch)

    Transaction.fenced = unfenced
    return await found(simulation, "transactions", "stall")


async def what_was_aborted_before_a_restart_is_forgotten(simulation: Simulation) -> list[str]:
    async def unread(log, segment):
        segment.aborted_unread = False

    LogReader._read_aborted = unread
    return await found(simulation, "transactions", "restart")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (a_snapshot_forgets_open_transactions, "aborted read", 1),
        (a_fenced_epoch_may_write, "zombie", 1),
        (nobody_asks_the_coordinator_before_a_transaction_begins, "aborted read", 14),
        (who_takes_too_long_is_aborted_and_not_fenced, "aborted read", 1),
        (what_was_aborted_before_a_restart_is_forgotten, "aborted read", 0),
    ],
)
def test_a_planted_bug_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
