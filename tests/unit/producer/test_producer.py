"""The producer on trio against a scripted cluster: deliveries, errors, waiting, retries and the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import BufferExhausted, MetadataTimeout, ProducerClosed, RecordTooLarge
from pykbroker.core.producer.murmur2 import partition_of_key
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer, RowsFailed
from pykbroker.sim.scripted.connection import Dropped, NoAnswer
from tests.unit.producer.conftest import TIME_MS, Producing, delayed, refuse
from wire.api import ApiKey
from wire.error_codes import ErrorCode


def memory(producer: Producer) -> int:
    """Return the free bytes of `buffer_memory`."""
    return producer._shell.pool.available_bytes


@pytest.fixture(autouse=True)
def memory_returns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check after every test that each closed producer has all its memory back."""
    made: list[Producer] = []
    original = Producer.__aenter__

    async def enter(producer: Producer) -> Producer:
        made.append(producer)
        return await original(producer)

    monkeypatch.setattr(Producer, "__aenter__", enter)
    yield
    for producer in made:
        assert memory(producer) == producer._settings.buffer_memory


class TestSend:
    """A record arrives with its parts, and its delivery says where."""

    async def test_a_delivery_has_partition_offset_and_timestamp(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            first = await producer.send("topic", b"a", partition=1)
            second = await producer.send("topic", b"b", partition=1, timestamp=77)
            assert not second.is_done
            assert await first == ("topic", 1, 0, TIME_MS)
            assert await second == ("topic", 1, 1, 77)
            assert await second == second.result()
        assert producing.values(1) == [b"a", b"b"]

    async def test_a_delivery_is_awaited_in_the_loop_of_its_producer_only(
        self, autojump_clock, producing: Producing
    ) -> None:
        async def awaited(delivery: Any) -> Any:
            return await delivery

        async with producing.producer() as producer:
            deliveries: list[Any] = [await producer.send("topic", b"a"), await producer.send_many("topic", [b"b"])]
            for _ in ("unsettled", "settled"):
                for delivery in deliveries:
                    with pytest.raises(RuntimeError, match="belongs to a producer in another trio loop"):
                        await trio.to_thread.run_sync(trio.run, awaited, delivery)
                    assert await delivery

    async def test_keys_and_headers_arrive(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            headers: list[Any] = [("name", b"1"), ("none", None), ("view", memoryview(b"2"))]
            delivery = await producer.send("topic", bytearray(b"value"), memoryview(b"key"), headers=headers)
        (record,) = producing.state.log(TopicPartition("topic", delivery.partition)).records
        assert delivery.partition == partition_of_key(b"key", 3)
        assert (record.key, record.value) == (b"key", b"value")
        assert record.headers == (("name", b"1"), ("none", None), ("view", b"2"))

    async def test_a_null_value_is_a_tombstone(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            await producer.send("topic", None, b"key", partition=0)
        assert producing.values() == [None]

    async def test_records_are_sent_in_batches_after_linger(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(linger_ms=50) as producer:
            deliveries = [await producer.send("topic", b"%d" % number, partition=0) for number in range(100)]
            began = trio.current_time()
            await deliveries[-1]
            assert trio.current_time() - began == pytest.approx(0.05, abs=0.02)
        (request,) = producing.cluster.requests_of(ApiKey.PRODUCE)
        assert len(request.topic_data[0].partition_data) == 1
        assert producing.values() == [b"%d" % number for number in range(100)]

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    async def test_records_can_be_compressed(self, autojump_clock, producing: Producing, codec: str) -> None:
        async with producing.producer(compression_type=codec, batch_size=1000) as producer:
            for number in range(500):
                await producer.send("topic", b"%d" % number * 20, partition=0)
        assert producing.values() == [b"%d" % number * 20 for number in range(500)]

    async def test_records_without_keys_reach_all_partitions(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=300) as producer:
            for number in range(300):
                await producer.send("topic", b"%03d" % number * 10)
        assert producing.all_values() == [b"%03d" % number * 10 for number in range(300)]
        assert all(producing.values(index) for index in range(3))

    @pytest.mark.parametrize("acks", [0, 1, "all"])
    async def test_every_level_of_acks_delivers(self, autojump_clock, producing: Producing, acks: Any) -> None:
        async with producing.producer(acks=acks) as producer:
            metadata = await (await producer.send("topic", b"a", partition=0))
            assert metadata.offset == (-1 if acks == 0 else 0)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert producing.values() == [b"a"]

    async def test_send_nowait_never_waits(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            with pytest.raises(trio.WouldBlock):
                producer.send_nowait("topic", b"a", partition=0)
            await producer.partitions_for("topic")
            assert (await producer.send_nowait("topic", b"b", partition=0)).offset == 0
        assert producing.values() == [b"b"]

    async def test_the_partitions_of_a_topic_are_known(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            assert await producer.partitions_for("topic") == [0, 1, 2]

    async def test_several_tasks_may_await_one_delivery(self, autojump_clock, producing: Producing) -> None:
        found = []

        async def wait(delivery: Any) -> None:
            found.append(await delivery)

        async with producing.producer(linger_ms=50) as producer:
            delivery = await producer.send("topic", b"a", partition=0)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait, delivery)
        assert found == [("topic", 0, 0, TIME_MS)] * 3


class TestSendMany:
    """Columns are sent whole, and their delivery knows every row."""

    async def test_every_row_has_its_offset(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=500) as producer:
            values = [b"%04d" % row for row in range(1000)]
            result = await (await producer.send_many("topic", values))
        for row, (partition, offset) in enumerate(zip(result.partitions, result.offsets, strict=True)):
            assert producing.values(partition)[offset] == values[row]
        assert len(set(result.partitions)) > 1

    async def test_keys_select_partitions_row_by_row(self, autojump_clock, producing: Producing) -> None:
        keys = [None if row % 5 == 0 else b"%d" % row for row in range(100)]
        async with producing.producer() as producer:
            result = await (await producer.send_many("topic", [b"%d" % row for row in range(100)], keys))
        for row, key in enumerate(keys):
            assert key is None or result.partitions[row] == partition_of_key(key, 3)
            assert producing.values(result.partitions[row])[result.offsets[row]] == b"%d" % row

    async def test_headers_timestamps_and_a_partition_apply(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            await producer.send_many("topic", [b"a", b"b"], None, [(), (("h", b"1"),)], [5, 6], partition=2)
        records = producing.state.log(TopicPartition("topic", 2)).records
        assert [(each.value, each.headers, each.timestamp) for each in records] == [
            (b"a", (), 5),
            (b"b", (("h", b"1"),), 6),
        ]

    async def test_more_rows_than_memory_are_sent_in_portions(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=500, buffer_memory=1500) as producer:
            result = await (await producer.send_many("topic", [b"%04d" % row * 9 for row in range(1000)], partition=0))
        assert result.offsets == list(range(1000))

    async def test_rows_that_failed_are_named_and_the_others_stand(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=300, enable_idempotence=False) as producer:
            await producer.partitions_for("topic")
            refuse(producing.cluster, ErrorCode.INVALID_RECORD, error_message="no")
            delivery = await producer.send_many("topic", [b"%04d" % row for row in range(100)], partition=0)
            with pytest.raises(
                RowsFailed, match=r"\d+ of 100 rows failed, the first is row 0: .*INVALID_RECORD: no"
            ) as error:
                await delivery
        failed = len(error.value.errors)
        assert 0 < failed < 100
        assert error.value.offsets == [-1] * failed + list(range(100 - failed))
        assert producing.values() == [b"%04d" % row for row in range(failed, 100)]

    async def test_rows_without_memory_fail_and_the_others_stand(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=300, buffer_memory=600, max_block_ms=50) as producer:
            await producer.partitions_for("topic")
            for index in range(3):
                producing.move(index, -1)
            await trio.sleep(1)
            with trio.move_on_after(0):
                await producer.flush()
            for index in range(3):
                producing.move(index, 1)
            producing.cluster.script(ApiKey.PRODUCE, delayed)
            delivery = await producer.send_many("topic", [b"%04d" % row * 5 for row in range(100)], partition=0)
            with pytest.raises(RowsFailed) as error:
                await delivery
        written = [row for row in range(100) if row not in error.value.errors]
        assert 0 < len(written) < 100
        assert producing.values() == [b"%04d" % row * 5 for row in written]
        assert all(isinstance(each, BufferExhausted) for each in error.value.errors.values())

    async def test_no_rows_are_delivered_at_once(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            assert await (await producer.send_many("topic", [])) == ("topic", [], [])

    async def test_a_row_that_is_too_large_is_named_before_anything_is_sent(
        self, autojump_clock, producing: Producing
    ) -> None:
        async with producing.producer(max_request_size=1000) as producer:
            with pytest.raises(RecordTooLarge, match="row 1 of 2.* bytes exceeds max_request_size"):
                await producer.send_many("topic", [b"a", b"x" * 2000])
        assert producing.all_values() == []


async def fill(producer: Producer) -> None:
    """Send records until an error ends it."""
    while True:
        await producer.send("topic", b"x" * 100, partition=0)


class TestWaiting:
    """A send waits for metadata and memory, and no longer than max.block.ms."""

    async def test_an_unknown_topic_is_awaited(
        self, autojump_clock, producing: Producing, nursery: trio.Nursery
    ) -> None:
        async def create() -> None:
            await trio.sleep(3)
            producing.state.add_topic("later", 1)

        nursery.start_soon(create)
        async with producing.producer() as producer:
            assert (await (await producer.send("later", b"a"))).offset == 0
            assert producing.elapsed() > 3

    @pytest.mark.parametrize("creates", [True, False])
    async def test_a_topic_is_created_unless_the_producer_forbids_it(
        self, autojump_clock, producing: Producing, creates: bool
    ) -> None:
        producing.state.auto_creates = True
        async with producing.producer(allow_auto_create_topics=creates, max_block_ms=500) as producer:
            if creates:
                assert (await (await producer.send("new", b"a"))).offset == 0
            else:
                with pytest.raises(MetadataTimeout):
                    await producer.send("new", b"a")

    async def test_an_unknown_topic_is_refused_after_max_block(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(max_block_ms=500) as producer:
            with pytest.raises(MetadataTimeout, match="topic 'no' is unknown to the cluster after max_block_ms=500"):
                await producer.send("no", b"a")

    async def test_an_unknown_partition_is_refused_after_max_block(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(max_block_ms=500) as producer:
            with pytest.raises(MetadataTimeout, match="'topic' has 3 partitions and no partition 3 after max_block_ms"):
                await producer.send("topic", b"a", partition=3)

    async def test_brokers_that_do_not_answer_are_named(self, autojump_clock, producing: Producing) -> None:
        for node in producing.cluster.nodes.values():
            node.stop()
        async with producing.producer(max_block_ms=500) as producer:
            with pytest.raises(MetadataTimeout, match="no broker of bootstrap_servers=node1:9092, .* has answered"):
                await producer.send("topic", b"a")

    async def test_an_invalid_topic_is_refused_at_once(self, autojump_clock, producing: Producing) -> None:
        async def invalid(node: Any, request: Any) -> Any:
            answer = node.state.metadata(request)
            for topic in answer.topics:
                topic.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            return answer

        producing.cluster.script(ApiKey.METADATA, invalid)
        async with producing.producer() as producer:
            with pytest.raises(ApiError, match="topic 'a-b': INVALID_TOPIC_EXCEPTION"):
                await producer.send("a-b", b"a")
            assert producing.elapsed() < 1

    async def test_a_full_buffer_is_awaited_and_then_refused(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=200, buffer_memory=400, max_block_ms=500, linger_ms=0) as producer:
            await producer.partitions_for("topic")
            producing.cluster.script(ApiKey.PRODUCE, delayed)
            for number in range(20):
                await producer.send("topic", b"x" * 100, partition=number % 3)
            assert producing.elapsed() > 1
            for node in producing.cluster.nodes.values():
                node.stop()
            with pytest.raises(BufferExhausted, match="of buffer_memory=400 became free within max_block_ms=500"):
                await fill(producer)
            for node in producing.cluster.nodes.values():
                node.start()

    async def test_a_cancelled_send_takes_no_memory(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(batch_size=200, buffer_memory=400) as producer:
            await producer.partitions_for("topic")
            for index in range(3):
                producing.move(index, -1)
            with trio.move_on_after(1) as scope:
                await fill(producer)
            assert scope.cancelled_caught
            for index in range(3):
                producing.move(index, 2)
        assert len(producing.values()) == 2


class TestFaults:
    """Retries keep order and write each record once."""

    @pytest.mark.parametrize("idempotent", [True, False])
    async def test_a_new_leader_gets_the_records(self, autojump_clock, producing: Producing, idempotent: bool) -> None:
        async with producing.producer(enable_idempotence=idempotent) as producer:
            for number in range(30):
                if number % 10 == 5:
                    producing.move(0, 1 + number % 3)
                await (await producer.send("topic", b"%02d" % number, partition=0))
        assert producing.values() == [b"%02d" % number for number in range(30)]

    async def test_a_lost_answer_writes_nothing_twice(self, autojump_clock, producing: Producing) -> None:
        async def lose(node: Any, request: Any) -> Any:
            await node._answers[ApiKey.PRODUCE](node, None, request)
            raise Dropped

        async with producing.producer() as producer:
            await (await producer.send("topic", b"0", partition=0))
            producing.cluster.script(ApiKey.PRODUCE, lose, times=3)
            deliveries = [await producer.send("topic", b"%d" % number, partition=0) for number in range(1, 9)]
            assert [(await each).offset for each in deliveries] == list(range(1, 9))
        assert producing.values() == [b"%d" % number for number in range(9)]

    async def test_a_broker_that_restarts_loses_nothing(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            for number in range(40):
                await producer.send("topic", b"%02d" % number, partition=0)
                if number % 10 == 3:
                    producing.cluster.nodes[1].stop()
                await trio.sleep(0.1)
                if number % 10 == 8:
                    producing.cluster.nodes[1].start()
        assert producing.values() == [b"%02d" % number for number in range(40)]

    @pytest.mark.parametrize("idempotent", [True, False])
    async def test_a_connection_that_breaks_while_a_record_is_sent_loses_nothing(
        self, autojump_clock, producing: Producing, idempotent: bool
    ) -> None:
        async with producing.producer(enable_idempotence=idempotent) as producer:
            await (await producer.send("topic", b"a", partition=0))
            for pump in producing.net.pumps:
                pump.is_broken = True
            with trio.fail_after(5):
                await (await producer.send("topic", b"b", partition=0))
        assert producing.values() == [b"a", b"b"]

    async def test_a_broker_that_does_not_answer_is_disconnected(self, autojump_clock, producing: Producing) -> None:
        async def hang(_node: Any, _request: Any) -> None:
            raise NoAnswer

        async with producing.producer(request_timeout_ms=500) as producer:
            producing.cluster.script(ApiKey.PRODUCE, hang, times=1)
            assert (await (await producer.send("topic", b"a", partition=0))).offset == 0
            assert 0.5 < producing.elapsed() < 2

    async def test_a_record_fails_after_the_delivery_timeout(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(request_timeout_ms=500, delivery_timeout_ms=1000) as producer:
            await producer.partitions_for("topic")
            producing.move(0, -1)
            delivery = await producer.send("topic", b"a", partition=0)
            with pytest.raises(ApiError, match="1 records for topic-0 expired: 100. ms") as error:
                await delivery
            assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
            producing.move(0, 1)
            assert (await (await producer.send("topic", b"b", partition=0))).offset == 0

    async def test_a_refused_record_fails_and_the_next_one_is_written(
        self, autojump_clock, producing: Producing
    ) -> None:
        async with producing.producer() as producer:
            refuse(producing.cluster, ErrorCode.INVALID_TIMESTAMP, error_message="too old")
            delivery = await producer.send("topic", b"a", partition=0)
            with pytest.raises(ApiError, match="INVALID_TIMESTAMP: too old"):
                await delivery
            assert (await (await producer.send("topic", b"b", partition=0))).offset == 0

    async def test_statistics_count_what_happened(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(buffer_memory=1 << 20, enable_idempotence=False) as producer:
            await producer.partitions_for("topic")
            refuse(producing.cluster, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.INVALID_TIMESTAMP)
            for count in (3, 2):
                deliveries = [await producer.send("topic", b"%d" % number, partition=0) for number in range(count)]
                await producer.flush()
            with pytest.raises(ApiError):
                deliveries[0].result()
            found = producer.statistics()
        assert (found.records_sent + found.records_failed, found.waiting) == (5, 0)
        assert found.records_failed > 0
        assert found.records_retried > 0
        assert found.requests >= 3
        assert (found.buffer_bytes, found.buffer_available_bytes) == (1 << 20, 1 << 20)

    async def test_a_batch_that_is_too_large_is_split(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(linger_ms=50) as producer:
            refuse(producing.cluster, ErrorCode.MESSAGE_TOO_LARGE)
            deliveries = [await producer.send("topic", b"%d" % number, partition=0) for number in range(9)]
            assert [(await each).offset for each in deliveries] == list(range(9))
        assert producing.values() == [b"%d" % number for number in range(9)]

    async def test_a_producer_id_that_is_refused_fails_the_records(
        self, autojump_clock, producing: Producing, caplog: pytest.LogCaptureFixture
    ) -> None:
        from wire.messages.init_producer_id import InitProducerIdResponse

        async def refuse_id(_node: Any, _request: Any) -> Any:
            return InitProducerIdResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        async with producing.producer() as producer:
            producing.cluster.script(ApiKey.INIT_PRODUCER_ID, refuse_id, times=1)
            delivery = await producer.send("topic", b"a", partition=0)
            with pytest.raises(ApiError, match="no producer id was assigned .CLUSTER_AUTHORIZATION_FAILED."):
                await delivery
            assert (await (await producer.send("topic", b"b", partition=0))).offset == 0

    @pytest.mark.parametrize(("idle_ms", "attempts"), [(-1, 0), (1000, 1)])
    async def test_an_idle_connection_is_closed_after_its_time(
        self, autojump_clock, producing: Producing, idle_ms: int, attempts: int
    ) -> None:
        async with producing.producer(connections_max_idle_ms=idle_ms, metadata_max_age_ms=10_000_000) as producer:
            await (await producer.send("topic", b"a", partition=0))
            before = len(producing.net.attempts)
            await trio.sleep(100)
            await (await producer.send("topic", b"b", partition=0))
            assert (len(producing.net.attempts) > before) is bool(attempts)
        assert producing.values() == [b"a", b"b"]

    async def test_a_recreated_topic_gets_later_records(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            await (await producer.send("topic", b"a", partition=0))
            producing.state.recreate_topic("topic")
            assert (await (await producer.send("topic", b"b", partition=0))).offset == 0
        assert producing.values() == [b"b"]


class TestBadRecords:
    """A record that cannot be sent is refused with what to do."""

    @pytest.mark.parametrize(
        ("record", "text"),
        [
            ({"value": "text"}, "the value is of type str: pass bytes, or set value_serializer"),
            ({"value": b"", "key": 5}, "the key is of type int: pass bytes, or set key_serializer"),
            ({"value": "text", "key": 5}, "the key is of type int"),
            ({"value": "text", "key": 5, "partition": "0"}, "the partition '0' is no integer"),
            ({"value": b"", "headers": [("a", "b")]}, "the header 'a' has a value of type str: pass bytes or None"),
            ({"value": b"", "headers": [b"a"]}, "the header b'a' is no pair of a name and bytes"),
        ],
    )
    async def test_content_that_is_not_bytes(
        self, autojump_clock, producing: Producing, record: dict[str, Any], text: str
    ) -> None:
        async with producing.producer() as producer:
            with pytest.raises(TypeError, match=text):
                await producer.send("topic", **record)

    async def test_a_record_that_is_too_large(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(max_request_size=1000) as producer:
            with pytest.raises(RecordTooLarge, match="exceeds max_request_size, which is 1000"):
                await producer.send("topic", b"x" * 1000, partition=0)

    async def test_serializers_apply_and_must_return_bytes(self, autojump_clock, producing: Producing) -> None:
        serializers = {"key_serializer": str.encode, "value_serializer": lambda value: value and value.encode()}
        async with producing.producer(**serializers) as producer:
            await producer.send("topic", "value", "key", partition=0)
        assert producing.values() == [b"value"]
        async with producing.producer(value_serializer=lambda value: value) as producer:
            with pytest.raises(TypeError, match="value_serializer returned str: it must return bytes or None"):
                await producer.send("topic", "value")

    async def test_an_error_of_a_serializer_is_the_callers(self, autojump_clock, producing: Producing) -> None:
        def fail(value: Any) -> bytes:
            raise LookupError(value)

        async with producing.producer(value_serializer=fail) as producer:
            with pytest.raises(LookupError, match="value"):
                await producer.send("topic", "value")


class Recording:
    """An interceptor that adds its name to values, and records what it sees."""

    def __init__(self, name: bytes) -> None:
        self.name, self.seen, self.closed = name, [], False  # type: ignore[var-annotated]

    def on_send(self, record: Any) -> Any:
        return record._replace(value=record.value + self.name)

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        self.seen.append(error if metadata is None else metadata.offset)

    def close(self) -> None:
        self.closed = True


class Failing:
    """An interceptor that always raises."""

    def on_send(self, record: Any) -> Any:
        raise LookupError("on_send")

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        raise LookupError("on_acknowledgement")

    def close(self) -> None:
        raise LookupError("close")


class TestInterceptors:
    """Interceptors see every record in their order, and cannot break a send."""

    async def test_records_pass_the_chain_and_a_failing_one_is_skipped(
        self, autojump_clock, producing: Producing, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, last = Recording(b"1"), Recording(b"2")
        with caplog.at_level(logging.ERROR):
            async with producing.producer(interceptors=[first, Failing(), last]) as producer:
                await (await producer.send("topic", b"a", partition=0))
                refuse(producing.cluster, ErrorCode.INVALID_RECORD)
                delivery = await producer.send("topic", b"b", partition=0)
                with pytest.raises(ApiError):
                    await delivery
        assert producing.values() == [b"a12"]
        assert first.seen[0] == 0
        assert isinstance(first.seen[1], ApiError)
        assert first.closed
        assert last.closed
        for method in ("on_send for topic topic", "on_acknowledgement", "close"):
            assert f"failed in {method}, and is skipped" in caplog.text


class TestEnd:
    """A closed producer has sent or failed every record."""

    async def test_the_end_of_the_block_sends_everything(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(linger_ms=10_000) as producer:
            for number in range(10):
                await producer.send("topic", b"%d" % number, partition=0)
        assert len(producing.values()) == 10
        assert producing.elapsed() < 5

    async def test_a_flush_sends_at_once(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer(linger_ms=10_000) as producer:
            delivery = await producer.send("topic", b"a", partition=0)
            await producer.flush()
            assert delivery.is_done
            assert producing.elapsed() < 5

    async def test_a_closed_producer_refuses_records(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            await producer.partitions_for("topic")
            await producer.aclose()
            with pytest.raises(ProducerClosed):
                await producer.send("topic", b"a", partition=0)

    async def test_a_close_with_a_time_limit_fails_the_rest(self, autojump_clock, producing: Producing) -> None:
        async with producing.producer() as producer:
            await producer.partitions_for("topic")
            producing.move(0, -1)
            delivery = await producer.send("topic", b"a", partition=0)
            await producer.aclose(timeout_s=1)
            with pytest.raises(ProducerClosed, match="closed before the record was acknowledged"):
                await delivery

    async def test_a_cancelled_block_fails_the_rest(self, autojump_clock, producing: Producing) -> None:
        with trio.move_on_after(1):
            async with producing.producer() as producer:
                await producer.partitions_for("topic")
                producing.move(0, -1)
                delivery = await producer.send("topic", b"a", partition=0)
                await trio.sleep_forever()
        with pytest.raises(ProducerClosed):
            delivery.result()

    async def test_an_error_in_the_block_is_raised_as_it_is(self, autojump_clock, producing: Producing) -> None:
        async def send_and_fail() -> None:
            async with producing.producer() as producer:
                await producer.send("topic", b"a", partition=0)
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await send_and_fail()
        assert producing.values() == [b"a"]
