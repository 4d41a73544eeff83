"""The checks of ownership: a partition has one owner, and no commit of an old generation succeeds."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from pykbroker.sim.checkers import Anomaly
from pykbroker.sim.groups.history import Assigned, Commit, GroupHistory, Lease
from pykbroker.sim.history import Place, SendOutcome
from wire.sentinels import NO_GENERATION_ID


def check_ownership(history: GroupHistory) -> list[Anomaly]:
    """Return every anomaly in the ownership of partitions."""
    return [
        *_check_generations(history.assigned),
        *_check_leases(history.leases),
        *_check_fences(history.commits, history.assigned),
    ]


def _check_generations(assigned: Iterable[Assigned]) -> Iterator[Anomaly]:
    """Find partitions that were assigned to two members in one generation of a classic group."""
    owners: dict[tuple[str, int, Place], str] = {}
    for each in assigned:
        for place in each.places:
            owner = owners.setdefault((each.group, each.generation, place), each.member)
            if owner != each.member:
                yield Anomaly(
                    "two owners", place, f"{owner} and {each.member} in generation {each.generation} of {each.group}"
                )


def _check_leases(leases: Iterable[Lease]) -> Iterator[Anomaly]:
    """Find partitions that were assigned to a member while another member may still have considered them its own."""
    last: dict[tuple[str, Place], Lease] = {}
    for lease in sorted(leases, key=lambda lease: lease.from_s):
        before = last.get((lease.group, lease.place))
        if before is not None and before.member != lease.member and before.until_s > lease.from_s:
            yield Anomaly(
                "two owners",
                lease.place,
                f"{lease.member} of {lease.group} from {lease.from_s:.3f} s on,"
                f" {before.member} until {before.until_s:.3f} s",
            )
        if before is None or lease.until_s > before.until_s:
            last[lease.group, lease.place] = lease


def _check_fences(commits: Iterable[Commit], assigned: Iterable[Assigned]) -> Iterator[Anomaly]:
    """Find commits of a generation that were accepted after a member had learned of a later generation."""
    received: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for each in assigned:
        received[each.group].append((each.received_s, each.generation))
    times, highest = {}, {}
    for group, events in received.items():
        events.sort()
        times[group] = [received_s for received_s, _ in events]
        highest[group] = list(accumulate((generation for _, generation in events), max))
    for commit in commits:
        if (
            commit.outcome is SendOutcome.ACKNOWLEDGED
            and commit.generation != NO_GENERATION_ID
            and commit.group in times
        ):
            before = bisect_left(times[commit.group], commit.began_s)
            if before and highest[commit.group][before - 1] > commit.generation:
                yield Anomaly(
                    "zombie commit",
                    commit.place,
                    f"{commit.mark} of {commit.group} in generation"
                    f" {commit.generation}, in {highest[commit.group][before - 1]}",
                )
