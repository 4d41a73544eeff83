"""The steps of a replica that refuses appends, as its broker reads the metadata and its own log."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.unwritable import UNWRITABLE_MS_MAX, Unwritable, UnwritableStep
from wire.sentinels import NO_LEADER

NODE, OTHER = 2, 1
HERE = (b"1" * 16, b"2" * 16, b"3" * 16)
FOLLOWS = PartitionImage((1, 2, 3), (1, 2, 3), OTHER, 5, 0, HERE)
LEADS = replace(FOLLOWS, leader=NODE)
OUT = replace(FOLLOWS, isr=(1, 3), directories=(HERE[0], LOST, HERE[2]))
END = 100
"""The end of the log at the first refusal, which happens at time 0."""
LATE_MS = UNWRITABLE_MS_MAX


def step(
    unwritable: Unwritable, placed: PartitionImage, now_ms: float, end: int | None = END, *, has_successor: bool = True
) -> UnwritableStep:
    return unwritable.step(placed, NODE, now_ms, end, has_successor=has_successor)


@pytest.mark.parametrize("placed", [LEADS, FOLLOWS])
def test_a_replica_leaves_the_isr_after_it_has_refused_all_appends_for_3_s(placed: PartitionImage) -> None:
    unwritable = Unwritable(0, END)
    unwritable.note_refused_append(LATE_MS - 1, END)
    assert step(unwritable, placed, LATE_MS - 1) is UnwritableStep.WAIT
    assert step(unwritable, placed, LATE_MS) is UnwritableStep.LEAVE
    assert step(unwritable, placed, LATE_MS + 1) is UnwritableStep.LEAVE


def test_a_replica_stays_without_a_successor_or_outside_of_the_isr() -> None:
    unwritable = Unwritable(0, END)
    assert step(unwritable, LEADS, LATE_MS, has_successor=False) is UnwritableStep.WAIT
    assert step(unwritable, replace(FOLLOWS, isr=(1, 3)), LATE_MS) is UnwritableStep.WAIT


def test_an_only_replica_has_nobody_to_wait_for() -> None:
    only = replace(LEADS, replicas=(NODE,), isr=(NODE,), directories=HERE[1:2])
    assert step(Unwritable(0, END), only, LATE_MS, has_successor=False) is UnwritableStep.END


def test_a_successful_append_ends_the_refusals_and_the_next_one_begins_their_time_anew() -> None:
    unwritable = Unwritable(0, END)
    assert step(unwritable, LEADS, LATE_MS, END + 1) is UnwritableStep.END
    unwritable.note_refused_append(LATE_MS, END + 1)
    assert step(unwritable, LEADS, 2 * LATE_MS - 1, END + 1) is UnwritableStep.WAIT
    assert step(unwritable, LEADS, 2 * LATE_MS, END + 1) is UnwritableStep.LEAVE


def test_a_lost_replica_returns_once_it_has_written() -> None:
    unwritable = Unwritable(0, END)
    assert step(unwritable, OUT, LATE_MS) is UnwritableStep.WAIT
    assert step(unwritable, OUT, LATE_MS, END + 1) is UnwritableStep.RETURN
    assert step(unwritable, OUT, LATE_MS, END + 1) is UnwritableStep.RETURN
    assert step(unwritable, replace(FOLLOWS, isr=(1, 3)), LATE_MS, END + 1) is UnwritableStep.END


def test_a_lost_replica_whose_log_was_truncated_returns_once_it_has_written_after_that() -> None:
    unwritable = Unwritable(0, END)
    assert step(unwritable, OUT, LATE_MS, END - 10) is UnwritableStep.WAIT
    assert step(unwritable, OUT, LATE_MS, END - 9) is UnwritableStep.RETURN


def test_a_lost_replica_that_lacks_nothing_returns_if_its_directory_has_room() -> None:
    unwritable = Unwritable(0, END)
    unwritable.is_level = True
    assert step(unwritable, OUT, LATE_MS) is UnwritableStep.PROBE
    unwritable.note_refused_append(LATE_MS, END)
    assert step(unwritable, OUT, LATE_MS) is UnwritableStep.WAIT


def test_a_follower_that_lacks_nothing_has_no_refusals_and_its_time_begins_anew() -> None:
    unwritable = Unwritable(0, END)
    unwritable.is_level = True
    assert step(unwritable, FOLLOWS, LATE_MS) is UnwritableStep.END
    unwritable.note_refused_append(LATE_MS, END)
    assert step(unwritable, FOLLOWS, 2 * LATE_MS - 1) is UnwritableStep.WAIT


def test_a_lost_replica_returns_at_once_if_nobody_leads() -> None:
    assert step(Unwritable(0, END), replace(OUT, leader=NO_LEADER), 0) is UnwritableStep.RETURN
    assert step(Unwritable(0, None), replace(OUT, leader=NO_LEADER), 0, None) is UnwritableStep.RETURN


def test_a_lost_replica_that_joined_the_isr_under_kafkas_controller_leaves_again() -> None:
    unwritable, joined = Unwritable(0, END), replace(OUT, isr=(1, 2, 3))
    unwritable.is_level = True
    unwritable.note_refused_append(LATE_MS, END)
    assert step(unwritable, joined, 2 * LATE_MS - 1) is UnwritableStep.WAIT
    assert step(unwritable, joined, 2 * LATE_MS) is UnwritableStep.LEAVE


def test_a_log_that_could_not_be_opened_is_written_once_it_is_open() -> None:
    unwritable = Unwritable(0, None)
    assert step(unwritable, FOLLOWS, LATE_MS, None) is UnwritableStep.LEAVE
    assert step(unwritable, OUT, LATE_MS, 0) is UnwritableStep.RETURN
    assert step(unwritable, FOLLOWS, LATE_MS, 0) is UnwritableStep.END
