"""Our producers and consumers under faults, and the bugs of clients that these runs find.

Each bug begins with a seed that finds it; SEARCH_SEEDS=40 in the environment searches for a new one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pykbroker.client.node import ClusterNode
from pykbroker.consumer.commits import OffsetCommits
from pykbroker.core.consumer.commits import CommitResult
from pykbroker.core.consumer.fetch_buffer import FetchBuffer
from pykbroker.core.consumer.fetched import AbortedTransactions
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadRecords
from pykbroker.core.producer.incomplete import IncompleteBatches
from pykbroker.core.producer.transactions.calls import EndTxnCall
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.requests import CoordinatorRequests
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.producer.transactions.state import TransactionCall
from pykbroker.producer.shell import ProducerShell
from pykbroker.sim.clients.scenes import SCENES, consume, produce, transact
from pykbroker.sim.simulation import Simulation

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

RUNS = 12
"""The number of seeds that are run, of which the first nine find each bug below."""
SEEDS_MAX = 40
"""The number of seeds that are tried until a bug is found."""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("scene", SCENES)
def test_clients_lose_double_and_reorder_nothing_under_faults(scene: str) -> None:
    command = [sys.executable, "-m", "tools.simulate", "clients", "--runs", str(RUNS), "--only", scene]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert (run.returncode, run.stdout) == (0, f"{scene}: {RUNS} runs\n")


def test_a_seed_gives_the_same_run_of_clients_in_processes_that_differ(apart) -> None:
    assert apart(consume, seed=3) == apart(consume, seed=3, hash_seed="7", junk=5_001, threshold=50)


# ---- bugs of the producer


async def memory_is_returned_twice(simulation: Simulation) -> list[str]:
    release = IncompleteBatches.release

    def twice(incomplete, batch):
        release(incomplete, batch)
        incomplete._pool._free += batch.reserved

    IncompleteBatches.release = twice
    return await produce(simulation)


async def a_waiter_is_forgotten(simulation: Simulation) -> list[str]:
    ProducerShell._call_waiters = lambda shell: shell.accumulator.incomplete.take_waiters()
    return await produce(simulation)


async def requests_without_an_answer_never_time_out(simulation: Simulation) -> list[str]:
    ClusterNode.expire = lambda node, now: now + 1e9
    return await produce(simulation, ["leave_unanswered"])


async def a_lost_answer_is_a_success(simulation: Simulation) -> list[str]:
    ProducerShell._failed = lambda shell, call, error: shell._answered(call, None)
    return await produce(simulation)


# ---- bugs of transactions


async def a_commit_does_not_wait_for_records(simulation: Simulation) -> list[str]:
    check, following = CoordinatorRequests.next_check_ms, CoordinatorRequests.next_call
    CoordinatorRequests.next_check_ms = lambda requests, *, has_incomplete: check(requests, has_incomplete=False)
    CoordinatorRequests.next_call = lambda requests, now_ms, *, has_incomplete: following(
        requests, now_ms, has_incomplete=False
    )
    return await transact(simulation)


async def an_abort_is_sent_as_a_commit(simulation: Simulation) -> list[str]:
    init = EndTxnCall.__init__

    def commits(call, *args, **fields):
        init(call, *args, **fields)
        call.commit = True

    EndTxnCall.__init__ = commits
    return await transact(simulation)


async def the_offsets_of_a_transaction_are_forgotten(simulation: Simulation) -> list[str]:
    send = TransactionManager.send_offsets
    TransactionManager.send_offsets = lambda manager, offsets, member: send(manager, {}, member)
    return await transact(simulation)


async def a_cancelled_commit_is_taken_back_by_an_abort(simulation: Simulation) -> list[str]:
    abort = TransactionManager.abort

    def forgets(manager):
        if not manager.is_completing:
            return abort(manager)
        manager.unanswered_end.is_acknowledged = True
        done = CallResult(TransactionCall.ABORT)
        done.complete()
        return done

    TransactionManager.abort = forgets
    return await transact(simulation)


# ---- bugs of the consumer


async def a_position_is_committed_before_its_records_are_given(simulation: Simulation) -> list[str]:
    commit = OffsetCommits.commit_automatically

    async def ahead(commits, offsets, now_ms):
        later = {each: CommittedOffset(offset.offset + 5, offset.epoch) for each, offset in offsets.items()}
        await commit(commits, later, now_ms)

    OffsetCommits.commit_automatically = ahead
    return await consume(simulation)


async def records_of_aborted_transactions_are_given(simulation: Simulation) -> list[str]:
    AbortedTransactions.hides = lambda transactions, batch: False
    return await consume(simulation)


async def positions_fall_behind_the_records_that_were_given(simulation: Simulation) -> list[str]:
    absorb = UnreadRecords._absorb

    def absorb_behind(unread):
        arrived = list(unread._arrived)
        absorb(unread)
        for part in arrived:
            offset = part.after.offset
            part.state.position = part.after._replace(offset=offset - (offset % 7 == 0))

    UnreadRecords._absorb = absorb_behind
    return await consume(simulation)


async def revoked_partitions_are_read_on(simulation: Simulation) -> list[str]:
    assign = ConsumerSubscription.assign_from_group
    ConsumerSubscription.assign_from_group = lambda subscription, partitions, awaiting=(): assign(
        subscription, {*subscription.partitions, *partitions}, awaiting
    )
    ConsumerSubscription.mark_revoking = lambda subscription, partitions: None
    return await consume(simulation)


async def committed_offsets_are_ignored(simulation: Simulation) -> list[str]:
    initialize = ConsumerSubscription.initialize
    ConsumerSubscription.initialize = lambda subscription, committed, leader_of: initialize(
        subscription, dict.fromkeys(committed), leader_of
    )
    return await consume(simulation)


async def a_lost_commit_is_a_success(simulation: Simulation) -> list[str]:
    async def attempt(commits, offsets):
        return CommitResult()

    OffsetCommits._attempt = attempt
    return await consume(simulation)


async def a_damaged_response_is_kept(simulation: Simulation) -> list[str]:
    again = FetchBuffer._is_damaged_again

    def kept(buffer, completed, state, now_ms):
        again(buffer, completed, state, now_ms)
        completed.is_drained = False
        return True

    FetchBuffer._is_damaged_again = kept
    return await consume(simulation, ["damage"])


BUGS = [
    (memory_is_returned_twice, "more bytes came back", 0),
    (a_waiter_is_forgotten, "hang", 0),
    (requests_without_an_answer_never_time_out, "hang", 8),
    (a_lost_answer_is_a_success, "lost", 0),
    (a_commit_does_not_wait_for_records, "phantom", 0),
    (an_abort_is_sent_as_a_commit, "phantom", 0),
    (a_cancelled_commit_is_taken_back_by_an_abort, "phantom", 8),
    (the_offsets_of_a_transaction_are_forgotten, "offset", 0),
    (a_position_is_committed_before_its_records_are_given, "skipped", 0),
    (records_of_aborted_transactions_are_given, "wrong", 0),
    (positions_fall_behind_the_records_that_were_given, "back", 0),
    (revoked_partitions_are_read_on, "not owned", 0),
    (committed_offsets_are_ignored, "back", 2),
    (a_lost_commit_is_a_success, "back", 2),
    (a_damaged_response_is_kept, "stuck", 0),
]


@pytest.mark.parametrize(("bug", "name", "first_seed"), BUGS)
def test_a_planted_bug_of_a_client_is_found(expect_finding, bug, name: str, first_seed: int) -> None:
    expect_finding(bug, name, first_seed, SEEDS_MAX)
