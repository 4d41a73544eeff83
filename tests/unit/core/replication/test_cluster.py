"""Tests of replication under random schedules of a pure cluster, and of planted bugs, each of which a schedule finds.

The search for a planted bug begins with a seed near one that finds it.
"""

from __future__ import annotations

import pytest

from pykbroker.core.replication import following
from pykbroker.core.replication.leading import Leading
from tests.unit.core.replication.cluster import Cluster, Replica, Violation

STEPS = 600
SEEDS = 60
SEARCHED_SEEDS_MAX = 2000


def test_no_acknowledged_record_is_lost_and_logs_are_equal_below_the_high_watermark() -> None:
    clusters = [Cluster(seed) for seed in range(SEEDS)]
    for cluster in clusters:
        cluster.run(STEPS)
    reached = {
        name: sum(getattr(one, name) for one in clusters) for name in ("grown", "shrunk", "truncated", "elected")
    }
    assert all(reached.values()), reached
    assert sum(len(one.acknowledged) for one in clusters) > SEEDS


def high_watermark_over_the_committed_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leading, "maximal_isr", property(lambda leading: leading.isr))


def shrunk_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = Leading._propose

    def at_once(leading, members, leader_broker_epoch):
        change = propose(leading, members, leader_broker_epoch)
        leading.isr = members
        return change

    monkeypatch.setattr(Leading, "_propose", at_once)


def truncation_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "start_offset", lambda epochs, high_watermark, end: min(high_watermark, end))


def a_late_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = following.decide
    monkeypatch.setattr(following, "decide", lambda asked, current, *answer: decide(asked, current and asked, *answer))


def a_new_leader_commits_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Replica.lead

    def lead_and_commit(replica, image, now_ms):
        lead(replica, image, now_ms)
        replica.high_watermark = len(replica.log)

    monkeypatch.setattr(Replica, "lead", lead_and_commit)


def acknowledged_once_the_leader_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leading, "is_committed", lambda leading, end_offset, high_watermark: True)


def search(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + SEARCHED_SEEDS_MAX):
        Cluster(seed).run(STEPS)


@pytest.mark.parametrize(
    ("bug", "first_seed"),
    [
        (high_watermark_over_the_committed_isr, 0),
        (shrunk_before_the_answer, 0),
        (truncation_to_the_high_watermark, 0),
        (a_late_answer_counts, 4204),
        (a_new_leader_commits_its_log, 0),
        (acknowledged_once_the_leader_has_it, 0),
    ],
)
def test_schedules_find_each_planted_bug(bug, first_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(Violation):
        search(first_seed)
