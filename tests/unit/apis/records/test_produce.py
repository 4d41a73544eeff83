"""Produce: appended batches, refused batches with their error codes, and acks."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio

from pykbroker.apis.records.produce.append import AT_ONCE_MAX
from pykbroker.apis.records.produce.settle import Unsettled, settle
from pykbroker.server.large_frame import LARGE_FRAME_BYTES
from tests.unit.apis.conftest import Client, LocalBroker, batch, produce_request
from wire.error_codes import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.records.crc import crc32c


@pytest.mark.parametrize("version", range(3, 13))
async def test_every_version_appends_a_batch(client: Client, version: int) -> None:
    first = await client.produce("a", batch(b"one", b"two"), version=version)
    second = await client.produce("a", batch(b"three"), version=version)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)


async def test_version_13_names_topics_by_id(client: Client) -> None:
    topic_id = await client.create("b")
    request = produce_request("", batch(b"one"))
    request.topic_data[0].topic_id = topic_id
    response = await client.call(request, 13)
    assert response.responses[0].topic_id == topic_id
    assert response.responses[0].partition_responses[0].error_code == 0
    request.topic_data[0].topic_id = b"unknown-unknown-"
    response = await client.call(request, 13)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_refused_partition_does_not_affect_the_others(client: Client) -> None:
    good, bad = batch(b"good"), batch(b"bad")[:-1] + b"!"
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="a",
                partition_data=[
                    PartitionProduceData(index=0, records=good),
                    PartitionProduceData(index=1, records=bad),
                    PartitionProduceData(index=4, records=good),
                    PartitionProduceData(index=-1, records=good),
                    PartitionProduceData(index=2, records=None),
                    PartitionProduceData(index=3, records=good),
                ],
            ),
            TopicProduceData(name="nobody", partition_data=[PartitionProduceData(index=0, records=good)]),
        ],
    )
    response = await client.call(request, 11)
    codes = [[part.error_code for part in topic.partition_responses] for topic in response.responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[0, ErrorCode.CORRUPT_MESSAGE, unknown, unknown, ErrorCode.INVALID_RECORD, 0], [unknown]]
    assert [part.base_offset for part in response.responses[0].partition_responses] == [0, -1, -1, -1, -1, 0]


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_invalid_acks_are_refused_after_other_errors(client: Client, acks: int) -> None:
    assert (await client.produce("a", batch(b"x"), acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert (await client.produce("no", batch(b"x"), acks=acks)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [3, 6, 7, 12])
async def test_zstd_is_accepted_from_version_7_on(client: Client, version: int) -> None:
    compressed = await client.produce("a", batch(b"x", codec=Codec.ZSTD), version=version)
    assert compressed.error_code == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else 0)
    assert (await client.produce("a", batch(b"x", codec=Codec.GZIP), version=version)).error_code == 0


@pytest.mark.parametrize(
    ("noise", "code"),
    [
        (b"\xff" * 100, ErrorCode.CORRUPT_MESSAGE),
        (b"\x7f" * 100, ErrorCode.CORRUPT_MESSAGE),
        (bytes(16) + b"\0" + b"\xff" * 83, ErrorCode.INVALID_RECORD),
    ],
)
async def test_random_bytes_are_refused_with_the_error_of_a_corrupt_batch(
    client: Client, noise: bytes, code: ErrorCode
) -> None:
    assert (await client.produce("a", noise)).error_code == code


async def test_acks_0_has_no_response_but_keeps_the_order_of_requests(client: Client) -> None:
    await client.stream.send_all(_frame(produce_request("a", batch(b"silent"), acks=0)))
    answer = await client.produce("a", batch(b"loud"))
    assert answer.base_offset == 1


async def test_an_error_with_acks_0_closes_the_connection(client: Client, local_broker: LocalBroker) -> None:
    await client.stream.send_all(_frame(produce_request("nobody", batch(b"x"), acks=0)))
    assert await client.closed()
    other = await local_broker.connect()
    assert (await other.produce("a", batch(b"x"))).error_code == 0


def _frame(request: ProduceRequest) -> bytes:
    from wire.frame import encode_request

    return encode_request(request, 11, 999, "test")


async def test_a_fetch_returns_the_batch_exactly_as_produced(client: Client) -> None:
    sent = batch(b"one", b"two")
    await client.produce("a", batch(b"zero"))
    await client.produce("a", sent)
    data = await client.fetch("a", 1)
    stored = bytes(data.records or b"")
    assert stored[16:] == sent[16:]
    assert struct.unpack_from(">qii", stored) == (1, len(sent) - 12, 0)


async def test_a_batch_larger_than_max_bytes_is_fetched_whole(client: Client) -> None:
    sent = [batch(bytes([65 + i]) * 900_000) for i in range(3)]
    for one in sent:
        assert (await client.produce("a", one)).error_code == 0
    data = await client.fetch("a", 0, max_bytes=10 << 20, bytes_max=10 << 20)
    got = list(batches(bytes(data.records or b"")))
    assert [bytes(one.buffer)[16:] for one in got] == [one[16:] for one in sent]
    assert [one.base_offset for one in got] == [0, 1, 2]


async def test_a_batch_above_max_message_bytes_is_refused(client: Client) -> None:
    await client.create("small", max_message_bytes="1000")
    overhead = len(batch(b""))
    codes = []
    for size in (999, 1000, 1001):
        filler = size - overhead
        value = bytes(filler - 2 if filler > 129 else filler)
        one = batch(value)
        codes.append(((await client.produce("small", one)).error_code, len(one)))
    assert [code for code, _ in codes] == [0, 0, ErrorCode.MESSAGE_TOO_LARGE]
    assert [size for _, size in codes] == [999, 1000, 1001]


async def test_a_repeated_idempotent_batch_is_appended_once(client: Client) -> None:
    producer = await client.call(InitProducerIdRequest(transactional_id=None), 4)
    assert producer.error_code == 0

    def numbered(sequence: int, *values: bytes) -> bytes:
        return batch(
            *values, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=sequence
        )

    assert (await client.produce("a", numbered(0, b"a", b"b"))).base_offset == 0
    assert (await client.produce("a", numbered(2, b"c"))).base_offset == 2
    again = await client.produce("a", numbered(0, b"a", b"b"))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert (await client.produce("a", numbered(5, b"e"))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await client.produce("a", numbered(3, b"d"))).base_offset == 3


async def test_every_producer_id_is_unique(client: Client) -> None:
    ids = [(await client.call(InitProducerIdRequest(transactional_id=None), 4)).producer_id for _ in range(2100)]
    assert len(set(ids)) == 2100


async def test_clients_cannot_produce_to_internal_topics(client: Client) -> None:
    await client.create("__consumer_offsets")
    refused = await client.produce("__consumer_offsets", batch(b"x"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_log_append_time_is_returned_and_stored(client: Client) -> None:
    await client.create("stamped", message_timestamp_type="LogAppendTime")
    answer = await client.produce("stamped", batch(b"x"))
    (stored,) = batches(bytes((await client.fetch("stamped", 0)).records or b""))
    assert answer.log_append_time_ms == stored.max_timestamp > 1_700_000_000_000
    assert stored.is_log_append_time
    assert stored.crc_ok()


@pytest.mark.parametrize("partitions", [2, AT_ONCE_MAX + 1])
async def test_a_transactional_batch_without_a_transactional_id_refuses_the_whole_request(
    client: Client, partitions: int
) -> None:
    transactional = batch(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    request = produce_request("a", batch(b"y" * LARGE_FRAME_BYTES))
    request.topic_data += [produce_request("b", batch(b"y")).topic_data[0] for _ in range(partitions - 2)]
    request.topic_data += produce_request("b", transactional).topic_data
    response = await client.call(request, 12)
    codes = {one.error_code for topic in response.responses for one in topic.partition_responses}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert (await client.produce("a", batch(b"z"))).base_offset == 0
    request.acks = 0
    await client.send(request, 12)
    assert await client.closed()


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("tx", ErrorCode.NOT_ENOUGH_REPLICAS)],
)
async def test_a_transactional_batch_needs_a_transactional_id_and_a_coordinator(
    client: Client, transactional_id: str | None, code: ErrorCode
) -> None:
    request = produce_request("a", batch(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
    request.transactional_id = transactional_id
    response = await client.call(request, 11)
    assert response.responses[0].partition_responses[0].error_code == code
    assert (await client.fetch("a", 0)).high_watermark == 0


async def test_a_batch_behind_one_that_no_coordinator_verified_is_repeated(client: Client) -> None:
    first = batch(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    request = produce_request("a", first)
    request.transactional_id = "tx"
    await client.call(request, 11)
    later = await client.produce("a", batch(b"y", producer_id=1, producer_epoch=0, base_sequence=1))
    assert later.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await client.produce("a", batch(b"y", producer_id=1, producer_epoch=0, base_sequence=0))).base_offset == 0


@pytest.mark.parametrize("claimed", [3, 1000, 2**31 - 1])
async def test_a_batch_whose_record_count_exceeds_its_size_is_refused(client: Client, claimed: int) -> None:
    lying = bytearray(batch(b"one", b"two"))
    struct.pack_into(">i", lying, 23, claimed - 1)
    struct.pack_into(">i", lying, 57, claimed)
    struct.pack_into(">I", lying, 17, crc32c(lying, 21))
    answer = await client.produce("a", bytes(lying))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert (await client.fetch("a", 0)).high_watermark == 0


async def test_requests_keep_their_order_when_a_batch_is_validated_off_the_event_loop(client: Client) -> None:
    """Send a batch with too many headers to be validated on the event loop, then a small one that must follow it."""
    builder = BatchBuilder()
    builder.append(b"first", b"", (("name", None),) * 20_000, 1_700_000_000_000)
    for data in (builder.build(), batch(b"second")):
        await client.send(produce_request("a", data), 11)
    answers = [(await client.receive()).responses[0].partition_responses[0] for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1)]


NO_KEY = "Compacted topic cannot accept message without key in topic partition compacted-0"


def keyed(*keys: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch with a record for each key."""
    builder = BatchBuilder(codec)
    for key in keys:
        builder.append(key, b"value", timestamp=1_700_000_000_000)
    return builder.build()


@pytest.mark.parametrize("codec", Codec)
async def test_records_of_a_compacted_topic_need_keys(client: Client, codec: Codec) -> None:
    await client.create("compacted", cleanup_policy="compact")
    for keys, missing in (((None,), [0]), ((None, b"k", None, None, None), [0, 2, 3, 4]), ((b"k", None), [1])):
        answer = await client.produce("compacted", keyed(*keys, codec=codec))
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)
        assert [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors] == [
            (index, NO_KEY) for index in missing
        ]
        first = ", ".join(f"RecordError(batchIndex={index}, message='{NO_KEY}')" for index in missing[:3])
        assert answer.error_message == (
            f"One or more records have been rejected due to {len(missing)} record errors in total, and only showing "
            f"the first three errors at most: [{first}]"
        )
    answer = await client.produce("compacted", keyed(*[None] * 2001, codec=codec))
    assert "2001 record errors in total" in (answer.error_message or "")
    assert len(answer.record_errors) == 1000
    assert (await client.produce("compacted", keyed(b"k", b"", codec=codec))).base_offset == 0


def many(acks: int, *, unknown: int = 0, records: bytes = b"") -> ProduceRequest:
    """Return a request with more partitions than one step appends to.

    The partitions belong to two topics, and `unknown` of them do not exist.
    """
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=records or batch(bytes(400))) for index in range(count)
                ],
            )
            for name, count in (("many", 100 + unknown), ("nobody", unknown), ("a", 4))
            if count
        ],
    )


@pytest.mark.parametrize("acks", [1, -1])
async def test_many_partitions_have_the_same_results_as_few(client: Client, acks: int) -> None:
    await client.create("many", 100)
    response = await client.call(many(acks, unknown=2), 9)
    unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert [(topic.name, [one.error_code for one in topic.partition_responses]) for topic in response.responses] == [
        ("many", [0] * 100 + unknown),
        ("nobody", unknown),
        ("a", [0] * 4),
    ]
    assert [one.index for one in response.responses[0].partition_responses] == [*range(102)]
    again = await client.call(many(acks), 9)
    assert {one.base_offset for topic in again.responses for one in topic.partition_responses} == {1}


async def test_many_partitions_with_acks_0_have_no_response(client: Client, local_broker: LocalBroker) -> None:
    await client.create("many", 100)
    await client.send(many(0), 9)
    client._sent.clear()
    assert (await client.produce("many", batch(b"x"), partition=99)).base_offset == 1
    await client.send(many(0, unknown=1), 9)
    client._sent.clear()
    assert await client.closed()
    assert (await (await local_broker.connect()).fetch("a", 0, partition=3)).high_watermark == 2


async def test_large_compressed_batches_among_many_are_decompressed_off_the_event_loop(client: Client) -> None:
    await client.create("many", 100, compression_type="zstd")
    response = await client.call(many(-1, records=batch(bytes(100_000), codec=Codec.LZ4)), 9)
    answers = [one for topic in response.responses for one in topic.partition_responses]
    assert {(one.error_code, one.base_offset) for one in answers} == {(0, 0)}
    assert len(answers) == 104


class Behind:
    """A double of a partition whose high watermark stays at `high_watermark`, since its followers lag."""

    def __init__(self, high_watermark: int) -> None:
        self.high_watermark, self.leader_epoch = high_watermark, -1

    async def flush_if_due(self) -> None:
        pass

    async def wait_committed(self, offset: int, leader_epoch: int) -> None:
        if self.high_watermark < offset:
            await trio.sleep_forever()


@pytest.mark.parametrize(("timeout_ms", "waited_s"), [(-(2**31), 0), (-1, 0), (0, 0), (1, 0.001), (30_000, 30)])
async def test_a_produce_that_waits_for_followers_times_out(
    timeout_ms: int, waited_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    """A negative timeout counts as 0.

    Partitions that are fully replicated before the timeout keep their result, and so do partitions that failed.
    """
    partitions: Any = [Behind(5), Behind(4), Behind(4), Behind(4)]
    answers = [PartitionProduceResponse(index) for index in range(4)]
    answers[2].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    offsets = (5, 5, 5, 0)
    unsettled = [Unsettled(*one) for one in zip(partitions, answers, offsets, strict=True)]
    began = trio.current_time()
    response = ProduceResponse([TopicProduceResponse("a", partition_responses=answers)])
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[])
    assert await settle(request, response, unsettled) is response
    assert trio.current_time() - began == pytest.approx(waited_s)
    assert [one.error_code for one in answers] == [0, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
