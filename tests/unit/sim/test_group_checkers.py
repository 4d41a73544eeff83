"""Tests of the checker of groups: it names each anomaly, and late or missing responses are no anomalies."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from pykbroker.sim.groups.history import Assigned, Commit, FetchedOffset, GroupHistory, Lease
from pykbroker.sim.groups.ownership import check_ownership
from pykbroker.sim.groups.register import check_offsets
from pykbroker.sim.history import SendOutcome

P, Q = ("t", 0), ("t", 1)
ACKNOWLEDGED, REFUSED, UNKNOWN = SendOutcome.ACKNOWLEDGED, SendOutcome.REFUSED, SendOutcome.UNKNOWN


def commit(offset: int, began_s: float, ended_s: float = inf, outcome: SendOutcome | None = None, **more) -> Commit:
    outcome = outcome or (UNKNOWN if ended_s == inf else ACKNOWLEDGED)
    return Commit("g", P, offset, f"m{offset}", began_s, ended_s, outcome, **more)


def fetched(offset: int, began_s: float, ended_s: float) -> FetchedOffset:
    return FetchedOffset("r", "g", P, offset, "" if offset < 0 else f"m{offset}", began_s, ended_s)


def kinds(anomalies) -> set[str]:
    return {each.kind for each in anomalies}


@pytest.mark.parametrize(
    ("expected", "commits", "answers"),
    [
        (set(), [], [fetched(-1, 0, 1)]),
        (set(), [commit(5, 0, 1), commit(9, 2, 3)], [fetched(-1, 0, 0.5), fetched(5, 0.5, 2.5), fetched(9, 2.5, 4)]),
        (set(), [commit(5, 0, 3), commit(9, 1, 2)], [fetched(9, 2, 2.5), fetched(5, 3, 4)]),
        (set(), [commit(5, 0), commit(9, 1, 2)], [fetched(9, 3, 4), fetched(5, 5, 6)]),
        (set(), [commit(5, 0, 1), commit(9, 2)], [fetched(5, 3, 4)]),
        (set(), [commit(5, 0, 1), commit(3, 2, 3)], [fetched(3, 4, 5)]),
        (set(), [commit(5, 0, 9, in_transaction=True, not_before_s=4)], [fetched(-1, 3, 5), fetched(5, 4, 6)]),
        ({"lost commit"}, [commit(5, 0, 1), commit(9, 2, 3)], [fetched(5, 4, 5)]),
        ({"lost commit"}, [commit(5, 0, 1)], [fetched(-1, 2, 3)]),
        ({"offset fetched and then gone"}, [commit(5, 0, 1), commit(9, 2)], [fetched(9, 3, 4), fetched(5, 5, 6)]),
        (
            {"offset fetched and then gone"},
            [commit(5, 0), commit(9, 0)],
            [fetched(5, 1, 2), fetched(9, 3, 4), fetched(5, 5, 6)],
        ),
        ({"invented offset"}, [commit(5, 0, 1)], [fetched(7, 2, 3)]),
        ({"invented offset"}, [commit(5, 0, 1)], [FetchedOffset("r", "g", P, 6, "m5", 2, 3)]),
        ({"offset fetched too early"}, [commit(5, 4, 5)], [fetched(5, 2, 3)]),
        ({"offset fetched too early"}, [commit(5, 0, 9, in_transaction=True, not_before_s=4)], [fetched(5, 2, 3)]),
        ({"refused offset fetched"}, [commit(5, 0, outcome=REFUSED)], [fetched(5, 2, 3)]),
        ({"aborted offset fetched"}, [commit(5, 0, outcome=REFUSED, in_transaction=True)], [fetched(5, 2, 3)]),
    ],
)
def test_each_anomaly_of_committed_offsets_is_named(expected, commits, answers):
    assert kinds(check_offsets(commits, answers)) == expected


def test_offsets_of_each_partition_and_group_are_checked_separately():
    commits = [commit(5, 0, 1)]
    elsewhere = [FetchedOffset("r", "g", Q, -1, "", 2, 3), FetchedOffset("r", "h", P, -1, "", 2, 3)]
    assert check_offsets(commits, elsewhere) == []


def test_a_long_correct_history_of_offsets_has_no_findings():
    dice, commits, answers, now_s, held = Random(1), [], [], 0.0, -1
    for number in range(20_000):
        began_s, done_s, ended_s = now_s, now_s + dice.random(), now_s + 1 + dice.random()
        now_s = done_s
        if dice.random() < 0.5:
            held = number
            commits.append(commit(number, began_s, inf if dice.random() < 0.1 else ended_s))
        else:
            answers.append(fetched(held, began_s, ended_s))
    assert check_offsets(commits, answers) == []
    assert check_offsets(commits, [*answers, fetched(-1, now_s + 9, now_s + 10)]) != []


def history(assigned=(), leases=(), commits=()) -> GroupHistory:
    made = GroupHistory([])
    made.assigned, made.leases, made.commits = list(assigned), list(leases), list(commits)
    return made


@pytest.mark.parametrize(
    ("expected", "of"),
    [
        (
            set(),
            history([Assigned("g", 1, "a", (P,), 1), Assigned("g", 1, "b", (Q,), 1), Assigned("g", 2, "b", (P,), 2)]),
        ),
        (set(), history([Assigned("g", 1, "a", (P,), 1), Assigned("h", 1, "b", (P,), 1)])),
        (set(), history(leases=[Lease("g", "a", P, 0, 3), Lease("g", "b", P, 3, 4), Lease("g", "b", Q, 0, 4)])),
        (set(), history(leases=[Lease("g", "a", P, 0, 3), Lease("g", "a", P, 2, 4)])),
        (set(), history([Assigned("g", 2, "b", (), 5)], commits=[commit(5, 4, 6, generation=1)])),
        (set(), history([Assigned("g", 2, "b", (), 5)], commits=[commit(5, 6, outcome=REFUSED, generation=1)])),
        (set(), history([Assigned("g", 2, "b", (), 5)], commits=[commit(5, 6, 7)])),
        ({"two owners"}, history([Assigned("g", 1, "a", (P, Q), 1), Assigned("g", 1, "b", (Q,), 1)])),
        ({"two owners"}, history(leases=[Lease("g", "a", P, 0, 3), Lease("g", "b", P, 2, 4)])),
        (
            {"two owners"},
            history(leases=[Lease("g", "a", P, 0, 9), Lease("g", "a", P, 1, 2), Lease("g", "b", P, 4, 5)]),
        ),
        ({"zombie commit"}, history([Assigned("g", 2, "b", (), 5)], commits=[commit(5, 6, 7, generation=1)])),
    ],
)
def test_each_anomaly_of_partition_ownership_is_named(expected, of):
    assert kinds(check_ownership(of)) == expected
