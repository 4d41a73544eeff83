"""The position of a stream in its checkpoint."""

from __future__ import annotations

import json

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.stream_offsets import StreamPosition, advanced, begin_of, json_of, position_of

A, B = TopicPartition("t", 0), TopicPartition("u", 1)
START = StreamPosition(None, {A: 3})


def test_a_position_goes_through_json() -> None:
    for position in (START, StreamPosition({A: 5, B: 0}, {A: 3}), StreamPosition({A: 5}), StreamPosition(None, {})):
        assert position_of(json.loads(json.dumps(json_of(position)))) == position
    assert json_of(StreamPosition({A: 5, B: 0})) == {"t": {"0": 5}, "u": {"1": 0}}


def test_the_first_micro_batch_has_the_start_of_the_stream() -> None:
    first = advanced(START, {A: 5})
    assert first == StreamPosition({A: 5}, {A: 3})
    assert advanced(first, {A: 9}) == StreamPosition({A: 9})


def test_a_position_without_anything_new_stays_equal() -> None:
    """Spark would run an empty micro-batch otherwise."""
    first = advanced(START, {A: 5})
    assert advanced(first, {A: 5}) == first
    assert advanced(START, {A: 3}) == START
    assert advanced(first, {}) == first


def test_a_first_micro_batch_begins_where_its_first_attempt_began() -> None:
    end = advanced(START, {A: 5})
    assert begin_of(StreamPosition(None, {A: 9}), end) == {A: 3}
    assert begin_of(end, StreamPosition({A: 9})) == {A: 5}
    assert begin_of(END_OF_NOTHING, advanced(END_OF_NOTHING, {B: 2})) == {}


END_OF_NOTHING = StreamPosition(None, {})
"""The position of a stream whose pattern matches no topic yet."""
