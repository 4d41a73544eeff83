"""A record that is invalid is refused to its sender, and the producer sends later records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.sim.scripted.state import ScriptedPartition
from tests.unit.producer.conftest import Producing, delayed
from wire.api import ApiKey

RECORD: dict[str, Any] = {"topic": "topic", "value": b"bad"}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"topic": 5}, TypeError, "the topic 5 is of type int: pass its name as str"),
        ({"topic": None}, TypeError, "the topic None is of type NoneType"),
        ({"topic": ""}, ApiError, "the empty string is not allowed"),
        ({"topic": "\ud800"}, ApiError, "contains one or more characters other than ASCII alphanumerics"),
        ({"partition": -1}, ValueError, "topic 'topic' has no partition -1: partitions begin at 0"),
        ({"timestamp": "now"}, TypeError, "the timestamp 'now' is no integer: pass ms since 1970"),
        ({"timestamp": 1.5}, TypeError, "the timestamp 1.5 is no integer"),
        ({"timestamp": -(1 << 63) - 1}, ValueError, "the timestamp -9223372036854775809 has more than 64 bits"),
        ({"timestamp": 1 << 63}, ValueError, "the timestamp 9223372036854775808 has more than 64 bits"),
        ({"headers": [("\ud800", b"")]}, ValueError, "half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
async def test_an_invalid_record_is_refused_at_once(
    autojump_clock, producing: Producing, given: dict[str, Any], error: type[Exception], text: str, is_known: bool
) -> None:
    async with producing.producer() as producer:
        if is_known:
            await producer.partitions_for("topic")
        with pytest.raises(error, match=text):
            await producer.send(**RECORD | given)
        assert producing.elapsed() < 1
        await (await producer.send("topic", b"good", partition=0))
    assert producing.all_values() == [b"good"]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"headers": [(), [("name", "text")]]}, TypeError, "the header 'name' has a value of type str"),
        ({"timestamps": [1, "2"]}, TypeError, "the timestamp '2' is no integer"),
        ({"timestamps": [1, -(1 << 64)]}, ValueError, "the timestamp -18446744073709551616 has more than"),
        ({"timestamps": [1 << 63, 1]}, ValueError, "the timestamp 9223372036854775808 has more than"),
    ],
)
async def test_columns_with_an_invalid_row_are_refused_at_once(
    autojump_clock, producing: Producing, given: Mapping[str, Any], error: type[Exception], text: str
) -> None:
    async with producing.producer() as producer:
        with pytest.raises(error, match=text):
            await producer.send_many("topic", [b"bad", b"bad"], partition=0, **given)
        await (await producer.send("topic", b"good", partition=0))
    assert producing.all_values() == [b"good"]


async def test_a_cancelled_send_appends_nothing(autojump_clock, producing: Producing) -> None:
    async with producing.producer(batch_size=1) as producer:
        await producer.partitions_for("topic")
        producing.cluster.script(ApiKey.PRODUCE, delayed)
        with trio.CancelScope() as scope:
            sent = 0
            while True:
                if sent == 5:
                    scope.cancel()
                await producer.send("topic", b"%d" % sent)
                sent += 1
        assert sent == 5
    assert producing.all_values() == [b"%d" % number for number in range(5)]


async def test_a_send_that_is_cancelled_after_its_append_returns_its_delivery(
    autojump_clock, producing: Producing
) -> None:
    async with producing.producer(batch_size=1) as producer:
        await producer.partitions_for("topic")
        producing.cluster.script(ApiKey.PRODUCE, delayed)
        await producer.send("topic", b"first")
        with trio.CancelScope() as scope:
            shell: Any = producer._shell
            shell.wake = scope.cancel  # this is called when the record has opened a batch
            delivery = await producer.send("topic", b"second")
        del shell.wake
        assert not delivery.is_done
    assert producing.all_values() == [b"first", b"second"]


async def test_a_record_for_a_partition_that_is_added_later_is_written(autojump_clock, producing: Producing) -> None:
    async with producing.producer() as producer:
        await producer.partitions_for("topic")
        producing.state.topics["topic"].partitions.append(ScriptedPartition(3, 1, 0, [1], [1]))
        assert (await (await producer.send("topic", b"a", partition=3))).partition == 3
