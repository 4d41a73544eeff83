"""The checks of committed offsets: each partition of each group is a register that is written and read atomically."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf

import msgspec

from pykbroker.sim.checkers import Anomaly
from pykbroker.sim.groups.history import Commit, FetchedOffset
from pykbroker.sim.history import SendOutcome

NOTHING = ""
"""The mark of a partition without a committed offset."""


class OffsetCluster(msgspec.Struct):
    """A commit and the OffsetFetch responses that have it: the end of the first and the start of the last."""

    mark: str
    first_end_s: float
    last_begin_s: float
    first_is_commit: bool = True

    def take(self, fetched: FetchedOffset) -> None:
        """Add one OffsetFetch response."""
        if fetched.ended_s < self.first_end_s:
            self.first_end_s, self.first_is_commit = fetched.ended_s, False
        self.last_begin_s = max(self.last_begin_s, fetched.began_s)


def check_offsets(commits: Iterable[Commit], fetched: Iterable[FetchedOffset]) -> list[Anomaly]:
    """Return every anomaly in the committed offsets of all groups."""
    written, read = defaultdict(list), defaultdict(list)
    for commit in commits:
        written[commit.group, commit.place].append(commit)
    for one in fetched:
        read[one.group, one.place].append(one)
    return [anomaly for key in sorted({*written, *read}) for anomaly in _check(written[key], read[key])]


def _check(commits: list[Commit], fetched: list[FetchedOffset]) -> Iterator[Anomaly]:
    known = {commit.mark: commit for commit in commits}
    clusters = {NOTHING: OffsetCluster(NOTHING, -inf, -inf)}
    for commit in commits:
        if commit.outcome is SendOutcome.ACKNOWLEDGED:
            clusters[commit.mark] = OffsetCluster(commit.mark, commit.ended_s, commit.began_s)
    for one in fetched:
        found = known.get(one.mark)
        if found is not None and found.outcome is not SendOutcome.ACKNOWLEDGED:
            clusters.setdefault(one.mark, OffsetCluster(one.mark, inf, found.began_s))
        kind = _untrue(one, found)
        if kind:
            yield Anomaly(kind, one.place, f"{one.reader} fetched {one.offset} of {one.group}, {one.mark}")
        elif one.mark in clusters:
            clusters[one.mark].take(one)
    yield from _tangled(list(clusters.values()), commits[0] if commits else fetched[0])


def _untrue(one: FetchedOffset, found: Commit | None) -> str:
    """Return why a response is wrong regardless of all other responses, or an empty text if it may be right."""
    if found is None:
        return "" if one.mark == NOTHING and one.offset < 0 else "invented offset"
    if found.outcome is SendOutcome.REFUSED:
        return "aborted offset fetched" if found.in_transaction else "refused offset fetched"
    if found.offset != one.offset:
        return "invented offset"
    return "offset fetched too early" if max(found.began_s, found.not_before_s) > one.ended_s else ""


def _tangled(clusters: list[OffsetCluster], of: Commit | FetchedOffset) -> Iterator[Anomaly]:
    """Find clusters that overlap in such a way that no order of commits explains them.

    If clusters are sorted by the end of their first operation, it is enough to compare each cluster with the earlier
    cluster whose last response began latest.
    """
    clusters.sort(key=lambda cluster: cluster.first_end_s)
    before = clusters[0]
    for cluster in clusters[1:]:
        if before.first_end_s < cluster.last_begin_s and cluster.first_end_s < before.last_begin_s:
            old, new = sorted((before, cluster), key=lambda one: -one.last_begin_s)
            kind = "lost commit" if new.first_is_commit else "offset fetched and then gone"
            yield Anomaly(
                kind,
                of.place,
                f"{of.group}: {old.mark or 'nothing'} at {old.last_begin_s:.3f} s, though"
                f" {new.mark or 'nothing'} had come by {new.first_end_s:.3f} s",
            )
        if cluster.last_begin_s > before.last_begin_s:
            before = cluster
