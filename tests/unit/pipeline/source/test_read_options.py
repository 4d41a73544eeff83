"""The options of queries that read."""

from __future__ import annotations

import logging
import pickle

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_json import nested_of, offsets_of
from pykbroker.pipeline.source.offset_limits import EARLIEST, LATEST, EveryPartition, SpecificOffsets
from pykbroker.pipeline.source.read_options import batch_options, stream_options
from pykbroker.pipeline.source.topic_selection import (
    AssignedPartitions,
    MatchingTopics,
    SubscribedTopics,
    selected,
    topics_to_describe,
)

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}
EXISTING = {"one": [0, 1], "two": [0], "someone": [0]}


def test_a_batch_query_reads_all_and_a_stream_begins_at_the_end() -> None:
    batch, stream = batch_options(NEEDED), stream_options(NEEDED)
    assert (batch.starting, batch.ending) == (EveryPartition(EARLIEST), EveryPartition(LATEST))
    assert stream.starting == EveryPartition(LATEST)
    assert (batch.fails_on_loss, batch.has_headers, batch.poll_timeout_s) == (True, False, 120)


def test_options_reach_the_tasks_unchanged() -> None:
    options = batch_options({**NEEDED, "startingoffsets": '{"t":{"0":5}}', "includeheaders": "TRUE"})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301
    assert options.starting == SpecificOffsets({TopicPartition("t", 0): 5})
    assert options.has_headers


def test_topics_are_selected_among_those_that_exist() -> None:
    one, two = TopicPartition("one", 1), TopicPartition("two", 5)
    assert selected(SubscribedTopics(("two", "none")), EXISTING) == [("two", 0)]
    assert selected(AssignedPartitions((one, two)), EXISTING) == [one]
    assert selected(MatchingTopics("one"), EXISTING) == [("one", 0), ("one", 1), ("someone", 0)]
    assert topics_to_describe(AssignedPartitions((one, two))) == ["one", "two"]
    assert topics_to_describe(MatchingTopics("one")) is None


def test_offsets_have_the_shape_of_sparks_checkpoints() -> None:
    nested = {"a": {"0": 1, "10": 3}, "b": {"2": 7}}
    assert nested_of(offsets_of(nested)) == nested


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"not valid in streaming queries: leave out {name}"):
        stream_options({**NEEDED, name.lower(): "latest"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingoffsetsbytimestampstrategy", "none", "use error or latest"),
        ("failondataloss", "no", "failOnDataLoss=no is not allowed: use true or false"),
        ("minpartitions", "many", "minPartitions=many is not allowed: use an integer"),
        ("maxrecordsperpartition", "0", "maxRecordsPerPartition must be positive"),
        ("startingoffsets", '{"t":{"0":true}}', "Expected e.g."),
        ("startingoffsets", '{"t":[1]}', "Expected e.g."),
        ("startingoffsetsbytimestamp", "x", 'Expected e.g. {"topicA": {"0": 123456789'),
    ],
)
def test_a_value_that_is_not_allowed_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        batch_options({**NEEDED, name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("starting", "ending", "message"),
    [
        ('{"t":{"0":5}}', '{"t":{"0":4}}', "t-0: the start offset 5 is greater than the end offset 4"),
        ('{"t":{"0":5}}', '{"t":{"1":9}}', "the same partitions: [t-0] start and [t-1] end"),
    ],
)
def test_a_start_behind_its_end_is_refused(starting: str, ending: str, message: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        batch_options({**NEEDED, "startingoffsets": starting, "endingoffsets": ending})
    assert message in str(caught.value)


def test_a_pattern_must_be_a_regular_expression() -> None:
    with pytest.raises(InvalidOption, match="is no regular expression"):
        batch_options({"kafka.bootstrap.servers": "h", "subscribepattern": "("})


def test_an_unknown_option_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch_options({**NEEDED, "startingoffset": "latest"})
    assert "'startingoffset' is unknown" in caplog.text
