"""A fetch of the metadata log: records, the point at which both logs agree, or a snapshot."""

from __future__ import annotations

import pytest

from pykbroker.core.log.epochs import LeaderEpochs, OffsetAndEpoch
from pykbroker.core.raft.fetch_position import Diverging, LeaderLog, NeedsSnapshot

EPOCHS = LeaderEpochs([(1, 0), (3, 10), (5, 20)])
WHOLE = LeaderLog(EPOCHS, 0, 30)
FORMATTED = LeaderLog(EPOCHS, 0, 30, (OffsetAndEpoch(0, 0),))
SNAPSHOT, NEWER = OffsetAndEpoch(15, 3), OffsetAndEpoch(25, 5)
SHORTENED = LeaderLog(LeaderEpochs([(3, 15), (5, 20)]), 15, 30, (SNAPSHOT, NEWER))


@pytest.mark.parametrize("log", [WHOLE, FORMATTED])
@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (0, 7), (10, 1), (15, 3), (20, 3), (30, 5)])
def test_a_log_that_is_a_prefix_gets_records(log: LeaderLog, offset: int, epoch: int) -> None:
    assert log.check(offset, epoch) is None


@pytest.mark.parametrize(
    ("offset", "epoch", "agreed"),
    [
        (12, 1, OffsetAndEpoch(10, 1)),  # the leader has fewer records of epoch 1
        (12, 2, OffsetAndEpoch(10, 1)),  # the leader has no epoch 2
        (25, 4, OffsetAndEpoch(20, 3)),
        (31, 5, OffsetAndEpoch(30, 5)),  # records that the leader lost
        (31, 9, OffsetAndEpoch(30, 5)),
    ],
)
def test_another_log_gets_the_point_at_which_both_agree(offset: int, epoch: int, agreed: OffsetAndEpoch) -> None:
    assert WHOLE.check(offset, epoch) == Diverging(agreed)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (14, 3), (15, 2), (18, 1)])
def test_records_that_were_deleted_are_only_in_the_newest_snapshot(offset: int, epoch: int) -> None:
    assert SHORTENED.check(offset, epoch) == NeedsSnapshot(NEWER)


def test_a_node_that_has_read_the_oldest_snapshot_goes_on_in_the_log() -> None:
    assert SHORTENED.check(15, 3) is None
    assert SHORTENED.check(25, 5) is None


def test_a_new_node_begins_with_the_newest_snapshot_although_the_log_is_whole() -> None:
    assert LeaderLog(EPOCHS, 0, 30, (OffsetAndEpoch(0, 0), SNAPSHOT)).check(0, 0) == NeedsSnapshot(SNAPSHOT)
