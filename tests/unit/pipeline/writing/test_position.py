"""The positions of source partitions as offsets of a group."""

from __future__ import annotations

import pytest

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.writing.position import PositionPlace, SourcePosition, committed_position, position_of

PLACE = PositionPlace("job", "copy", 3)
FACTS = {"archive": "a1", "until": ""}


def test_a_position_survives_its_commit() -> None:
    committed = committed_position(SourcePosition(1042, 1000), FACTS)
    assert committed.offset == 1042
    assert position_of(committed, FACTS, PLACE) == SourcePosition(1042, 1000)
    assert PLACE.key == TopicPartition("copy", 3)


def test_a_group_without_an_offset_begins_at_the_first_record() -> None:
    assert position_of(None, FACTS, PLACE) == SourcePosition(0, 0)


def test_the_position_of_a_job_with_another_fact_is_refused() -> None:
    committed = committed_position(SourcePosition(7, 7), FACTS)
    with pytest.raises(StateConflict, match=r"the group job belongs to a job with until=, not until=900"):
        position_of(committed, {**FACTS, "until": "900"}, PLACE)


@pytest.mark.parametrize("text", ["", "{}", "committed by another program"])
def test_the_offset_of_another_program_is_refused(text: str) -> None:
    with pytest.raises(StateConflict, match=r"the group job has an offset of copy-3 that is not one of this job"):
        position_of(CommittedOffset(5, metadata=text), FACTS, PLACE)
