"""Arrow tables are sent by every face of the producer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from pykbroker.core.producer.errors import TransactionError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaProducer, producer
from pykbroker.kafka.errors import IllegalStateError, KafkaTimeoutError
from pykbroker.producer import AsyncProducer, ColumnsResult, RowsFailed
from pykbroker.producer.threaded import ThreadedProducer
from tests.unit.producer.conftest import Producing, refuse
from tests.unit.producer.hosted import SETTINGS, WAIT_S, HostedNet, threaded
from wire.api import ApiKey
from wire.error_codes import ErrorCode

TABLE = pa.table(
    {
        "value": [b"a", None, "c"],
        "key": pa.array(["x", None, "z"]),
        "timestamp": pa.array([1, 2, 3], pa.timestamp("ms")),
        "headers": pa.array([[("h", b"1")], None, []], pa.map_(pa.string(), pa.binary())),
    }
)
ROWS = [(b"a", b"x", 1, (("h", b"1"),)), (None, None, 2, ()), (b"c", b"z", 3, ())]
RESULT = ColumnsResult("topic", [1, 1, 1], [0, 1, 2])


def rows(net: HostedNet) -> list[Any]:
    """Return the records of partition 1."""
    records = net.cluster.state.log(TopicPartition("topic", 1)).records
    return [(each.value, each.key, each.timestamp, each.headers) for each in records]


async def test_producer(autojump_clock, producing: Producing) -> None:
    async with producing.producer() as producer:
        assert await (await producer.send_many("topic", TABLE, partition=1)) == RESULT
        assert (await (await producer.send_many("topic", TABLE.slice(0, 0)))).offsets == []
        assert (await (await producer.send_many("topic", TABLE.to_batches()[0], partition=1))).offsets == [3, 4, 5]
        with pytest.raises(ValueError, match="a table has all columns: pass no keys, headers or timestamps"):
            await producer.send_many("topic", TABLE, keys=[b"k"])
        with pytest.raises(TypeError, match="the column 'value' is of type int64: pass binary or string"):
            await producer.send_many("topic", pa.table({"value": [1]}))
    records = producing.state.log(TopicPartition("topic", 1)).records
    assert [(each.value, each.key, each.timestamp, each.headers) for each in records] == 2 * ROWS


def test_threaded_producer() -> None:
    net = HostedNet()
    producer = threaded(net)
    delivery = producer.send_many("topic", TABLE, partition=1)
    producer.close()
    assert (delivery.result(), rows(net)) == (RESULT, ROWS)


def test_async_producer() -> None:
    net = HostedNet()

    async def main() -> None:
        async with AsyncProducer(world=net.world(), **SETTINGS) as producer:
            assert await (await producer.send_many("topic", TABLE, partition=1)) == RESULT

    asyncio.run(main())
    assert rows(net) == ROWS


def test_kafka_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    net = HostedNet()
    monkeypatch.setattr(producer, "ThreadedProducer", partial(ThreadedProducer, world=net.world()))
    with KafkaProducer(bootstrap_servers="node1:9092") as ours:
        future = ours.send_many("topic", TABLE, partition=1)
        assert future.get(WAIT_S) == RESULT
        assert future.is_done
        assert rows(net) == ROWS
        net.hold(ApiKey.PRODUCE)
        with pytest.raises(KafkaTimeoutError, match=r"Timeout after waiting for 0.01 secs"):
            ours.send_many("topic", [b"held"]).get(0.01)
        net.release()
        ours.flush()
        refuse(net.cluster, ErrorCode.INVALID_RECORD)
        with pytest.raises(RowsFailed, match="2 of 2 rows failed, the first is row 0") as failed:
            ours.send_many("topic", [b"a", b"b"], partition=0).get()
        assert {type(error).__name__ for error in failed.value.errors.values()} == {"InvalidRecordError"}
        with pytest.raises(ValueError, match="Topic name is invalid"):
            ours.send_many("a b", [b"a"])
    with pytest.raises(IllegalStateError, match="the producer is closed"):
        ours.send_many("topic", TABLE)


async def test_columns_that_are_not_appended_fail_the_transaction(autojump_clock, producing: Producing) -> None:
    async with producing.producer(transactional_id="t", max_block_ms=500) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(Exception, match="topic 'unknown' is unknown to the cluster"):
            await producer.send_many("unknown", [b"a"])
        with pytest.raises(TransactionError):
            await producer.commit_transaction()
        await producer.abort_transaction()
