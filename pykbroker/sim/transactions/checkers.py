"""The checks of transactions: the records that read_committed consumers get, atomicity, and fencing.

The final read_committed read, when no transaction is open any more, decides how undecided transactions have ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from pykbroker.sim.checkers import Anomaly, short
from pykbroker.sim.groups.register import check_offsets
from pykbroker.sim.history import Place, PollResult, SendOutcome
from pykbroker.sim.transactions.copier import SOURCE
from pykbroker.sim.transactions.history import (
    Decision,
    Deed,
    SentTransaction,
    SpoiledTransaction,
    Takeover,
    TransactionHistory,
)

NOWHERE: Place = ("", -1)
"""The place (partition) of an anomaly that belongs to no partition."""
View = Mapping[Place, Mapping[int, bytes]]


def check_transactions(history: TransactionHistory, final: Iterable[PollResult], settled_s: float) -> list[Anomaly]:
    """Return every anomaly in the transactions of a history.

    `final` has a read_committed read of every partition, done after `settled_s` without faults. The function also sets
    the outcome of the offsets that transactions have committed.
    """
    view = {poll.place: dict(poll.found) for poll in final}
    anomalies = [
        *_check_polls(history, view),
        *_check_whole(history.transactions, view),
        *_check_fences(history.deeds, history.takeovers),
        *_check_spoiled(history.spoiled),
    ]
    _settle_offsets(history.transactions, view, settled_s)
    commits = [*history.groups.commits, *(one for each in history.transactions for one in each.offsets)]
    return [*anomalies, *check_offsets(commits, history.groups.fetched)]


def _check_polls(history: TransactionHistory, view: View) -> Iterator[Anomaly]:
    """Find read_committed polls whose records differ from the expected records between the same offsets."""
    owners = {(place, value): each for each in history.transactions for place, value in each.values}
    for poll in history.committed.polls:
        final = view.get(poll.place)
        for offset, value in poll.found:
            owner = owners.get((poll.place, value))
            seen = f"{poll.consumer} got {short(value)} at {offset}"
            if owner is None:
                yield Anomaly("invented", poll.place, seen)
            elif owner.decision is Decision.VOID:
                yield Anomaly("aborted read", poll.place, f"{seen}, of {owner.name}")
            elif poll.ended_s < owner.asked_s:
                yield Anomaly("precommitted read", poll.place, f"{seen}, of {owner.name}, {poll.ended_s:.3f} s")
            elif final is not None and final.get(offset) != value:
                yield Anomaly("unread", poll.place, f"{seen}, of {owner.name}, which is gone")
        if final is not None:
            found = {offset for offset, _ in poll.found}
            for offset in [each for each in range(poll.offset, poll.next_offset) if each in final]:
                if offset not in found:
                    yield Anomaly(
                        "skipped",
                        poll.place,
                        f"{poll.consumer} did not get {short(final[offset])} at"
                        f" {offset}, though it came to {poll.next_offset}",
                    )


def _check_whole(transactions: Iterable[SentTransaction], view: View) -> Iterator[Anomaly]:
    """Find committed transactions that are only partly visible, and other transactions with visible records."""
    there = {(place, value) for place, found in view.items() for value in found.values()}
    for each in transactions:
        asked = [one for one in each.values if one[0] in view]
        missing = [one for one in asked if one not in there]
        if each.decision is Decision.VOID and len(missing) < len(asked):
            yield Anomaly(
                "aborted read",
                NOWHERE,
                f"{each.name} was never committed, and shows"
                f" {len(asked) - len(missing)} of {len(asked)} values in the end",
            )
        elif each.decision is Decision.COMMITTED and missing and len(missing) == len(asked):
            yield Anomaly("lost transaction", NOWHERE, f"{each.name} was committed and shows nothing")
        elif each.decision is not Decision.VOID and 0 < len(missing) < len(asked):
            yield Anomaly(
                "torn transaction",
                NOWHERE,
                f"{each.name} lacks {short(missing[0][1])} in {missing[0][0]}, {len(missing)} of {len(asked)} values",
            )


def _settle_offsets(transactions: Iterable[SentTransaction], view: View, settled_s: float) -> None:
    there = {(place, value) for place, found in view.items() for value in found.values()}
    for each in transactions:
        shows = each.decision is Decision.COMMITTED or (
            each.decision is Decision.UNDECIDED and any(one in there for one in each.values)
        )
        for one in each.offsets:
            one.outcome = SendOutcome.ACKNOWLEDGED if shows else SendOutcome.REFUSED
            one.ended_s = min(one.ended_s, settled_s)


def _check_fences(deeds: Iterable[Deed], takeovers: Iterable[Takeover]) -> Iterator[Anomaly]:
    """Find requests of a producer epoch that succeeded after InitProducerId had returned a newer epoch."""
    received: dict[str, list[tuple[float, tuple[int, int]]]] = defaultdict(list)
    for each in takeovers:
        received[each.transactional_id].append((each.received_s, (each.producer_id, each.epoch)))
    times, newest = {}, {}
    for name, events in received.items():
        events.sort()
        times[name] = [received_s for received_s, _ in events]
        newest[name] = list(accumulate((epoch for _, epoch in events), max))
    for deed in deeds:
        before = bisect_left(times.get(deed.transactional_id, []), deed.began_s)
        if before and newest[deed.transactional_id][before - 1] > (deed.producer_id, deed.epoch):
            yield Anomaly(
                "zombie",
                NOWHERE,
                f"{deed.what} of {deed.transactional_id} in epoch {deed.epoch}, after"
                f" {newest[deed.transactional_id][before - 1][1]} was given out",
            )


def _check_spoiled(transactions: Iterable[SpoiledTransaction]) -> Iterator[Anomaly]:
    """Find transactions that were refused although no fault explains it.

    A fault that reaches a producer ends its session, and any other gives a partition another leader epoch.
    """
    for each in transactions:
        if each.epochs_before is not None and each.epochs_before == each.epochs:
            yield Anomaly("unexplained abort", NOWHERE, f"{each.name} got {each.code}, and no fault explains it")


def check_copy(inputs: View, outputs: Iterable[bytes], committed: Mapping[Place, int]) -> list[Anomaly]:
    """Find input records below the committed offsets that are not in the output exactly once.

    Other records in the output are anomalies too.
    """
    made = Counter(short(value).encode().partition(SOURCE)[0] for value in outputs)
    anomalies = []
    for place, found in sorted(inputs.items()):
        for offset, value in sorted(found.items()):
            times, due = made.pop(short(value).encode(), 0), int(offset < committed.get(place, 0))
            if times != due:
                anomalies.append(
                    Anomaly(
                        "copied twice" if times > due else "not copied",
                        place,
                        f"{short(value)} at {offset}: {times} times, not {due}",
                    )
                )
    return anomalies + [Anomaly("invented", NOWHERE, f"{each!r} was never in the input") for each in sorted(made)]
