"""Tests of the checker of transactions: it names each anomaly and accepts all allowed outcomes."""

from __future__ import annotations

import pytest

from pykbroker.sim.committed import visible
from pykbroker.sim.groups.history import Commit, FetchedOffset
from pykbroker.sim.history import PollResult
from pykbroker.sim.transactions.checkers import check_copy, check_transactions
from pykbroker.sim.transactions.history import (
    Decision,
    Deed,
    SentTransaction,
    SpoiledTransaction,
    Takeover,
    TransactionHistory,
)
from wire.messages.fetch import AbortedTransaction
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.control import transaction_marker

P, Q = ("t", 0), ("t", 1)
VOID, UNDECIDED, COMMITTED = Decision.VOID, Decision.UNDECIDED, Decision.COMMITTED


def transaction(decision: Decision, in_p: str, in_q: str = "", asked_s: float = 1) -> SentTransaction:
    values = [(P, value.encode()) for value in in_p] + [(Q, value.encode()) for value in in_q]
    return SentTransaction("x", values, [], asked_s, decision)


def poll(offset: int, found: str, next_offset: int, ended_s: float = 5, place=P) -> PollResult:
    return PollResult(
        "c",
        place,
        offset,
        [(offset + at, value.encode()) for at, value in enumerate(found)],
        9,
        0,
        ended_s,
        True,
        next_offset,
    )


def kinds(transactions, polls, final_p: str, final_q: str = "", **more) -> set[str]:
    history = TransactionHistory([])
    history.transactions, history.committed.polls = transactions, polls
    for name, value in more.items():
        setattr(history, name, value)
    final = [poll(0, final_p, 9), poll(0, final_q, 9, place=Q)]
    return {each.kind for each in check_transactions(history, final, 9)}


@pytest.mark.parametrize(
    ("expected", "transactions", "polls", "final_p", "final_q"),
    [
        (set(), [transaction(COMMITTED, "ab", "c")], [poll(0, "ab", 3)], "ab", "c"),
        (set(), [transaction(UNDECIDED, "ab", "c")], [poll(0, "ab", 3)], "ab", "c"),
        (set(), [transaction(UNDECIDED, "ab", "c"), transaction(VOID, "d")], [poll(0, "", 3)], "", ""),
        ({"aborted read"}, [transaction(VOID, "a")], [poll(0, "a", 2)], "", ""),
        ({"aborted read"}, [transaction(VOID, "a")], [], "a", ""),
        ({"precommitted read"}, [transaction(COMMITTED, "a", asked_s=6)], [poll(0, "a", 2)], "a", ""),
        ({"unread"}, [transaction(UNDECIDED, "a")], [poll(0, "a", 2)], "", ""),
        ({"skipped"}, [transaction(COMMITTED, "ab")], [poll(0, "a", 2)], "ab", ""),
        ({"invented"}, [], [poll(0, "a", 1)], "a", ""),
        ({"torn transaction"}, [transaction(COMMITTED, "ab", "c")], [], "ab", ""),
        ({"torn transaction"}, [transaction(UNDECIDED, "ab", "c")], [], "", "c"),
        ({"lost transaction"}, [transaction(COMMITTED, "ab", "c")], [], "", ""),
    ],
)
def test_each_anomaly_of_a_transaction_is_named(expected, transactions, polls, final_p, final_q):
    assert kinds(transactions, polls, final_p, final_q) == expected


@pytest.mark.parametrize(
    ("expected", "decision", "offset", "began_s"),
    [
        (set(), COMMITTED, 7, 3),
        (set(), UNDECIDED, 7, 3),
        (set(), VOID, -1, 3),
        (set(), COMMITTED, -1, 1),
        ({"lost commit"}, COMMITTED, -1, 10),
        ({"aborted offset fetched"}, VOID, 7, 3),
        ({"offset fetched too early"}, COMMITTED, 7, 0),
    ],
)
def test_offsets_take_effect_only_with_their_transaction(expected, decision, offset, began_s):
    one = transaction(decision, "a", asked_s=2)
    one.offsets = [Commit("g", P, 7, "m", 1, 4 if decision is COMMITTED else 99, in_transaction=True, not_before_s=2)]
    history = TransactionHistory([])
    history.transactions = [one]
    history.groups.fetched = [FetchedOffset("r", "g", P, offset, "m" if offset == 7 else "", began_s, began_s + 0.5)]
    final = [poll(0, "" if decision is VOID else "a", 9)]
    assert {each.kind for each in check_transactions(history, final, 9)} == expected


@pytest.mark.parametrize(
    ("expected", "before", "now"),
    [
        ({"unexplained abort"}, (4, 5), (4, 5)),
        (set(), (4, 5), (4, 6)),
        (set(), None, (4, 5)),
        (set(), (4, 5), None),
        (set(), None, None),
    ],
)
def test_an_abort_needs_a_fault_that_explains_it(expected, before, now):
    assert kinds([], [], "", spoiled=[SpoiledTransaction("x", "INVALID_TXN_STATE", before, now)]) == expected


@pytest.mark.parametrize(
    ("expected", "deed"),
    [
        (set(), Deed("x", 1, 3, 4, "EndTxn")),
        (set(), Deed("x", 1, 4, 6, "EndTxn")),
        (set(), Deed("y", 1, 0, 6, "EndTxn")),
        ({"zombie"}, Deed("x", 1, 3, 6, "EndTxn")),
        ({"zombie"}, Deed("x", 0, 9, 6, "EndTxn")),
    ],
)
def test_a_request_with_an_old_producer_epoch_after_a_takeover_is_a_zombie(expected, deed):
    assert kinds([], [], "", takeovers=[Takeover("x", 1, 2, 1), Takeover("x", 1, 4, 5)], deeds=[deed]) == expected


@pytest.mark.parametrize(
    ("expected", "outputs", "committed"),
    [
        (set(), [b"a|1 ", b"b|1 "], 2),
        (set(), [b"a|2 "], 1),
        (set(), [], 0),
        ({"not copied"}, [b"b|1 "], 2),
        ({"copied twice"}, [b"a|1 ", b"a|2 "], 1),
        ({"copied twice"}, [b"a|1 "], 0),
        ({"invented"}, [b"a|1 ", b"x|1 "], 1),
    ],
)
def test_a_copy_by_transactions_has_every_record_exactly_once(expected, outputs, committed):
    assert {each.kind for each in check_copy({P: {0: b"a ", 1: b"b "}}, outputs, {P: committed})} == expected


def batch(base_offset: int, producer_id: int, *, transactional: bool = True) -> Batch:
    builder = BatchBuilder(base_offset=base_offset, producer_id=producer_id, transactional=transactional)
    builder.append(None, b"value", (), 1)
    return Batch.read(builder.build())


def marker(base_offset: int, producer_id: int, *, commit: bool) -> Batch:
    return Batch.read(
        transaction_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=base_offset,
        )
    )


def test_a_reader_skips_the_records_of_aborted_transactions():
    found = [
        batch(0, 7),
        batch(1, 8),
        batch(2, 9, transactional=False),
        marker(3, 7, commit=False),
        batch(4, 7),
        marker(5, 8, commit=True),
        marker(6, 7, commit=True),
        batch(7, 8),
        marker(8, 8, commit=False),
    ]
    aborted = [AbortedTransaction(8, 7), AbortedTransaction(7, 0)]
    assert [each.base_offset for each in visible(found, aborted)] == [1, 2, 4]
