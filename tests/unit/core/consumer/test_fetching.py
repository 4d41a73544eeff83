"""Fetching from brokers with sessions, transactions and errors: which records a consumer gets, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.consumer.errors import OffsetsOutOfRange, TopicsUnauthorized, UnreadableRecords
from pykbroker.core.consumer.fetch_call import FetchSettings
from pykbroker.core.consumer.fetched import BYTES_ENOUGH, CompletedFetch
from pykbroker.core.consumer.fetching import ConsumerFetches
from pykbroker.core.consumer.offset_reset import EARLIEST, NO_RESET, ResetStrategy
from pykbroker.core.consumer.partition_state import FetchState
from pykbroker.core.consumer.position import FetchPosition, PartitionLeader
from pykbroker.core.consumer.records import ConsumerRecord
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadRecords
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.consumer.fetch_broker import VERSION, FetchBroker, Log, topic_id
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.column_reader import read_columns
from wire.records.compression import Codec

NODE, BACKOFF_MS = 7, FetchSettings().backoff_ms
LEADER = PartitionLeader(NODE, 3)
A, B, C = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))


@dataclass
class Reader:
    """A consumer and its broker."""

    partitions: list[TopicPartition]
    settings: FetchSettings = field(default_factory=FetchSettings)
    reset: ResetStrategy = EARLIEST
    broker: FetchBroker = field(default_factory=FetchBroker)
    requests: list[FetchRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.subscription = ConsumerSubscription(self.reset)
        self.unread = UnreadRecords(self.subscription)
        self.subscription.assign(self.partitions)
        for partition in self.partitions:
            self.broker.logs[partition] = Log()
            self.subscription[partition].seek(FetchPosition(0, -1, LEADER))
        self.fetching = ConsumerFetches(self.subscription, self.unread, self.settings)

    def due(self, now_ms: float = 0.0):
        plan = self.fetching.due(topic_id, lambda partition, node: node == NODE, lambda node: True, now_ms)
        for call in plan.calls:
            self.fetching.sent(call)
        return plan

    def fetch(self, now_ms: float = 0.0) -> None:
        for call in self.due(now_ms).calls:
            request = call.request(VERSION)
            self.requests.append(request)
            self.fetching.received(call, self.broker.fetch(request))

    def poll(self, records_max: int = 1 << 30, now_ms: float = 0.0) -> list[ConsumerRecord]:
        self.fetching.buffer.collect(records_max, now_ms)
        taken = self.unread.take(records_max)
        self.unread.parts = taken.left
        return [record for part in taken.columns for record in part.records()]

    def values(self, records_max: int = 1 << 30) -> list[bytes | None]:
        self.fetch()
        return [record.value for record in self.poll(records_max)]


def asked(request: FetchRequest) -> list[tuple[str, int, int]]:
    return [(topic.topic, each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]


@given(st.data())
def test_every_committed_record_is_delivered_once_and_in_order(data: st.DataObject) -> None:
    is_committed = data.draw(st.booleans())
    settings = FetchSettings(is_committed=is_committed, partition_bytes_max=data.draw(st.sampled_from((1, 300, 9000))))
    reader = Reader([A, B], settings)
    got: dict[TopicPartition, list[tuple[int, bytes | None]]] = {A: [], B: []}
    before = dict.fromkeys(got, 0)
    actions = data.draw(st.lists(st.sampled_from(("append", "send", "end", "fetch", "fetch", "lose")), max_size=40))
    for action in actions:
        partition = data.draw(st.sampled_from((A, B))) if action != "fetch" else A
        log = reader.broker.logs[partition]
        if action == "append":
            log.append(data.draw(st.integers(1, 20)), codec=data.draw(st.sampled_from((Codec.NONE, Codec.LZ4))))
        elif action == "send":
            log.append(data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3)), gap=data.draw(st.integers(0, 2)))
        elif action == "end" and log.first_of:
            log.finish(data.draw(st.sampled_from(sorted(log.first_of))), commit=data.draw(st.booleans()))
        elif action == "lose":
            for call in reader.due().calls:
                reader.broker.fetch(call.request(VERSION))
                reader.fetching.failed(call)
        else:
            reader.fetch()
            for record in reader.poll(data.draw(st.integers(1, 30)) if len(actions) % 2 else 1000):
                got[TopicPartition(record.topic, record.partition)].append((record.offset, record.value))
            for each in got:
                position = reader.subscription[each].position.offset
                assert position >= before[each]
                before[each] = position
    for _ in range(60):
        reader.fetch()
        for record in reader.poll():
            got[TopicPartition(record.topic, record.partition)].append((record.offset, record.value))
    for partition, log in reader.broker.logs.items():
        if is_committed:
            assert got[partition] == log.committed
            assert reader.subscription[partition].position.offset <= log.last_stable_offset
        else:
            assert [offset for offset, _ in got[partition]] == sorted({offset for offset, _ in got[partition]})
            assert reader.subscription[partition].position.offset == log.end


def test_a_session_names_only_partitions_whose_offset_changed() -> None:
    reader = Reader([A, B])
    reader.broker.logs[A].append(3)
    assert reader.values() == [b"0", b"1", b"2"]
    reader.fetch()
    assert [asked(request) for request in reader.requests] == [[("a", 1, 0), ("a", 0, 0)][::-1], [("a", 0, 3)]]
    assert [request.session_epoch for request in reader.requests] == [0, 1]


def test_a_paused_partition_is_forgotten_by_the_session_and_its_records_wait() -> None:
    reader = Reader([A, B])
    reader.broker.logs[A].append(3)
    reader.fetch()
    reader.subscription[A].is_paused = True
    assert reader.poll() == []
    reader.fetch()
    assert [each.partitions for each in reader.requests[1].forgotten_topics_data] == [[0]]
    reader.subscription[A].is_paused = False
    assert [record.value for record in reader.poll()] == [b"0", b"1", b"2"]


def test_a_recreated_topic_is_forgotten_by_its_old_topic_id() -> None:
    reader = Reader([A])
    reader.fetch()
    reader.poll()
    [call] = reader.fetching.due(lambda topic: b"n" * 16, lambda *_: True, lambda node: True, 0.0).calls
    request = call.request(VERSION)
    assert [each.topic_id for each in request.forgotten_topics_data] == [topic_id("a")]
    assert [each.topic_id for each in request.topics] == [b"n" * 16]


def test_a_topic_without_known_id_limits_the_version_of_the_request() -> None:
    reader = Reader([A])
    [call] = reader.fetching.due(lambda topic: bytes(16), lambda *_: True, lambda node: True, 0.0).calls
    assert call.version_max == 12


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_after_a_session_error_the_next_request_opens_a_session(error: ErrorCode) -> None:
    reader = Reader([A])
    reader.fetch()
    reader.poll()
    [call] = reader.due().calls
    call.request(VERSION)
    news = reader.fetching.received(call, FetchResponse(error_code=error))
    assert not news.is_metadata_stale
    reader.broker.logs[A].append(1)
    assert reader.values() == [b"0"]
    last = reader.requests[-1]
    assert (last.session_epoch, asked(last)) == (0, [("a", 0, 0)])
    assert (last.session_id == 0) == (error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_a_session_with_wrong_topic_ids_has_metadata_refreshed() -> None:
    reader = Reader([A])
    [call] = reader.due().calls
    call.request(VERSION)
    response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    assert reader.fetching.received(call, response).is_metadata_stale


def test_a_response_with_a_partition_outside_the_session_is_dropped() -> None:
    reader = Reader([A])
    [call] = reader.due().calls
    call.request(VERSION)
    other = Reader([A, B])
    [other_call] = other.due().calls
    response = other.broker.fetch(other_call.request(VERSION))
    reader.fetching.received(call, response)
    assert reader.poll() == []
    assert len(reader.due().calls) == 1


def test_an_empty_response_of_a_throttling_broker_is_no_session() -> None:
    reader = Reader([A])
    [call] = reader.due().calls
    call.request(VERSION)
    reader.fetching.received(call, FetchResponse(throttle_time_ms=100))
    [call] = reader.due().calls
    assert call.request(VERSION).session_epoch == 0


def test_sessions_are_closed_by_a_last_request() -> None:
    reader = Reader([A])
    assert reader.fetching.close_requests() == []
    reader.fetch()
    [(node, request)] = reader.fetching.close_requests()
    assert (node, request.session_id, request.session_epoch) == (NODE, 1, -1)


def test_a_broker_has_one_request_in_flight_and_none_while_its_records_are_buffered() -> None:
    reader = Reader([A, B])
    reader.broker.logs[A].append(3)
    [call] = reader.due().calls
    assert reader.due().calls == []
    reader.fetching.received(call, reader.broker.fetch(call.request(VERSION)))
    assert reader.due().calls == []
    assert len(reader.poll(2)) == 2
    assert reader.due().calls == []
    assert len(reader.poll()) == 1
    assert len(reader.due().calls) == 1


def test_records_at_another_offset_than_the_position_are_dropped() -> None:
    reader = Reader([A])
    reader.broker.logs[A].append(5)
    reader.fetch()
    reader.subscription[A].seek(FetchPosition(3, -1, LEADER))
    assert reader.poll() == []
    assert reader.values() == [b"3", b"4"]


def test_records_of_a_partition_that_was_taken_away_are_dropped() -> None:
    reader = Reader([A])
    reader.broker.logs[A].append(5)
    reader.fetch()
    assert len(reader.poll(2)) == 2
    reader.subscription.assign([B])
    assert reader.poll() == []


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    ],
)
def test_errors_of_stale_metadata_have_metadata_refreshed_and_are_fetched_again(error: ErrorCode) -> None:
    reader = Reader([A])
    reader.broker.logs[A].append(1)
    reader.broker.errors[A] = PartitionData(error_code=error)
    assert reader.values() == []
    plan = reader.due(BACKOFF_MS - 0.1)
    assert plan.is_metadata_stale
    assert (plan.calls, plan.is_delayed) == ([], True)
    plan = reader.due(BACKOFF_MS)
    assert not plan.is_metadata_stale
    assert len(plan.calls) == 1


def test_a_new_leader_is_asked_without_a_backoff() -> None:
    reader = Reader([A])
    state, error = reader.subscription[A], PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for leader, is_known_first in ((8, False), (9, True)):
        reader.broker.errors[A] = error
        reader.fetch()
        if is_known_first:
            state.leader_changed(PartitionLeader(leader, leader), validates=False)
        assert reader.poll() == []
        state.leader_changed(PartitionLeader(leader, leader), validates=False)
        [call] = reader.due().calls
        assert call.node == leader
        reader.fetching.failed(call)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_other_transient_errors_are_fetched_again(error: ErrorCode) -> None:
    reader = Reader([A])
    reader.broker.logs[A].append(1)
    reader.broker.errors[A] = PartitionData(error_code=error)
    assert reader.values() == []
    plan = reader.due(BACKOFF_MS - 0.1)
    assert (plan.calls, plan.is_metadata_stale, plan.is_delayed) == ([], False, True)
    reader.fetch(BACKOFF_MS)
    assert [record.value for record in reader.poll()] == [b"0"]


def test_an_error_that_was_received_before_a_seek_is_stale() -> None:
    reader = Reader([A])
    reader.broker.errors[A] = PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    reader.fetch()
    reader.subscription[A].move(FetchPosition(0, -1, LEADER))
    assert reader.poll() == []
    assert len(reader.due().calls) == 1


def test_a_leader_hint_of_an_error_is_reported() -> None:
    reader = Reader([A, B])
    hint = LeaderIdAndEpoch(9, 4)
    reader.broker.errors[A] = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
    reader.broker.errors[B] = PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    [call] = reader.due().calls
    news = reader.fetching.received(call, reader.broker.fetch(call.request(VERSION)))
    assert news.leaders == {A: PartitionLeader(9, 4)}


def test_a_position_out_of_range_is_reset() -> None:
    reader = Reader([A])
    reader.subscription[A].seek(FetchPosition(99, -1, LEADER))
    assert reader.values() == []
    state = reader.subscription[A]
    assert (state.state, state.reset, state.position) == (FetchState.AWAIT_RESET, EARLIEST, None)


def test_a_position_out_of_range_is_an_error_without_a_reset_policy() -> None:
    reader = Reader([A], reset=NO_RESET)
    reader.subscription[A].seek(FetchPosition(99, -1, LEADER))
    with pytest.raises(OffsetsOutOfRange, match="position 99 is out of range for partition a-0") as caught:
        reader.values()
    assert caught.value.offsets == {A: 99}


def test_a_position_that_only_the_preferred_replica_lacks_is_fetched_from_the_leader() -> None:
    reader = Reader([A])
    reader.subscription[A].prefer_replica(NODE, 1000.0)
    reader.subscription[A].seek(FetchPosition(99, -1, PartitionLeader(8, 3)))
    assert reader.values() == []
    assert reader.subscription[A].state is FetchState.FETCHING
    assert [call.node for call in reader.due().calls] == [8]


def test_the_preferred_read_replica_is_fetched_from_until_it_expires() -> None:
    reader = Reader([A], FetchSettings(replica_ms_max=1000))
    reader.subscription[A].seek(FetchPosition(0, -1, PartitionLeader(8, 3)))
    reader.broker.errors[A] = PartitionData(preferred_read_replica=NODE, high_watermark=0)
    reader.fetch()
    reader.poll()
    [call] = reader.due(1000.0).calls
    assert call.node == NODE
    reader.fetching.failed(call)
    assert [each.node for each in reader.due(1000.0).calls] == [8]


def test_a_preferred_read_replica_that_is_offline_is_forgotten() -> None:
    reader = Reader([A])
    reader.subscription[A].prefer_replica(5, 1000.0)
    plan = reader.due()
    assert [call.node for call in plan.calls] == [NODE]
    assert plan.is_metadata_stale


def test_an_error_waits_until_the_records_before_it_are_returned() -> None:
    reader = Reader([A, B])
    reader.broker.logs[A].append(1)
    reader.broker.errors[B] = PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert reader.values() == [b"0"]
    with pytest.raises(TopicsUnauthorized, match=r"Not authorized to access topics: \[a\]"):
        reader.poll()
    assert reader.poll() == []


def test_an_unexpected_error_is_raised_with_its_code() -> None:
    reader = Reader([A])
    reader.broker.errors[A] = PartitionData(error_code=ErrorCode.INVALID_REQUEST)
    with pytest.raises(ApiError, match="Unexpected error while fetching a-0 at offset 0"):
        reader.values()


def whole_batch(offset: int) -> bytes:
    builder = BatchBuilder(base_offset=offset)
    builder.append(None, b"value", (), 1000)
    return bytes(builder.build())


def damaged_batch(offset: int) -> bytes:
    batch = bytearray(whole_batch(offset))
    batch[-2] ^= 1
    return bytes(batch)


def damaged_reader() -> Reader:
    """Return a consumer whose log has two records, a damaged batch of one, and another record."""
    reader = Reader([A])
    log = reader.broker.logs[A]
    log.append(2)
    log.batches.append(damaged_batch(2))
    log.end = 3
    log.append(1)
    return reader


def test_a_batch_with_a_wrong_crc_is_an_error_until_the_user_seeks_past_it() -> None:
    reader = damaged_reader()
    assert reader.values() == [b"0", b"1"]
    for now_ms in (0.0, BACKOFF_MS):
        reader.fetch(now_ms)
        with pytest.raises(UnreadableRecords, match="seek past the record") as raised:
            reader.poll(now_ms=now_ms)
        assert (raised.value.offset, reader.subscription[A].position.offset) == (2, 2)
    reader.subscription[A].move(FetchPosition(3, -1, LEADER))
    assert reader.values() == [b"3"]


def test_a_response_that_cannot_be_read_is_fetched_once_more_before_it_is_an_error() -> None:
    reader = damaged_reader()
    whole = Log()
    whole.append(4)
    assert reader.values() == [b"0", b"1"]
    reader.broker.logs[A] = whole
    assert reader.values() == [b"2", b"3"]


def test_after_its_error_a_partition_is_fetched_again_once_the_backoff_is_over() -> None:
    reader = damaged_reader()
    assert reader.values() == [b"0", b"1"]
    reader.fetch()
    with pytest.raises(UnreadableRecords):
        reader.poll()
    assert reader.poll() == []
    for now_ms, calls in ((BACKOFF_MS - 0.1, 0), (BACKOFF_MS, 1)):
        plan = reader.due(now_ms)
        assert (len(plan.calls), plan.is_delayed) == (calls, not calls)


def test_after_the_error_of_a_damaged_batch_a_healed_log_is_read_on() -> None:
    reader = damaged_reader()
    assert reader.values() == [b"0", b"1"]
    reader.fetch()
    with pytest.raises(UnreadableRecords):
        reader.poll()
    reader.broker.logs[A].batches[1] = whole_batch(2)
    reader.fetch(BACKOFF_MS)
    assert [each.offset for each in reader.poll()] == [2, 3]


def test_what_was_fetched_before_a_seek_is_stale_even_at_the_same_offset() -> None:
    reader = Reader([A])
    reader.broker.errors[A] = PartitionData(records=damaged_batch(0), high_watermark=1)
    reader.broker.logs[A].append(1)
    [call] = reader.due().calls
    response = reader.broker.fetch(call.request(VERSION))
    reader.fetching.received(call, response)
    reader.subscription[A].move(FetchPosition(0, -1, LEADER))
    assert reader.poll() == []
    assert reader.subscription[A].damaged_offset is None
    assert reader.values() == [b"0"]


def test_a_wrong_crc_is_ignored_without_check_crcs() -> None:
    reader = Reader([A], FetchSettings(checks_crc=False))
    reader.broker.logs[A].batches.append(damaged_batch(0))
    reader.broker.logs[A].end = 1
    assert reader.values() == [b"valud"]


def test_records_without_a_complete_batch_are_an_error() -> None:
    reader = Reader([A])
    for _ in range(2):
        assert reader.poll() == []
        reader.broker.errors[A] = PartitionData(records=b"x" * 30, high_watermark=1)
        reader.fetch()
    with pytest.raises(UnreadableRecords, match="30 bytes without a complete batch"):
        reader.poll()


def test_a_control_batch_alone_moves_the_position() -> None:
    reader = Reader([A])
    reader.broker.logs[A].finish(1, commit=True)
    reader.fetch()
    assert reader.fetching.buffer.collect(500, 0.0)
    assert not reader.unread.has_parts()
    assert reader.subscription[A].position.offset == 1


def test_a_record_has_the_fields_of_its_batch() -> None:
    reader = Reader([C])
    reader.broker.logs[C].append(1)
    reader.fetch()
    assert reader.poll() == [ConsumerRecord("b", 0, 0, 1000, 0, None, b"0", (), 3)]
    assert reader.subscription[C].position == FetchPosition(1, 3, LEADER)
    assert reader.subscription[C].high_watermark == 1


def test_a_request_has_the_settings_of_fetching() -> None:
    reader = Reader([A], FetchSettings(5, 6, 7, 8, is_committed=True, rack="r1"))
    reader.fetch()
    request = reader.requests[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (5, 6, 7)
    assert (request.isolation_level, request.rack_id, request.replica_id) == (1, "r1", -1)
    partition = request.topics[0].partitions[0]
    assert (partition.partition_max_bytes, partition.current_leader_epoch) == (8, 3)


def test_an_abort_marker_hides_only_the_transaction_before_it() -> None:
    reader = Reader([A], FetchSettings(is_committed=True))
    log = reader.broker.logs[A]
    for commit in (False, True, False):
        log.append(1, producer=1)
        log.append(1)
        log.finish(1, commit=commit)
    assert reader.values() == [b"1", b"3", b"4", b"7"]


@pytest.mark.parametrize(("spare", "batches"), [(1, 3), (0, 2), (-1, 2)])
@pytest.mark.parametrize("cuts_batch", [True, False])
def test_a_poll_takes_no_further_batch_once_it_has_enough_bytes(spare: int, batches: int, cuts_batch: bool) -> None:
    log = Log()
    for _ in range(5):
        log.append(10, codec=Codec.GZIP)
    data = PartitionData(records=b"".join(log.batches))
    content = sum(read_columns(Batch.read(each), 1 << 20).content_bytes for each in log.batches[:2])
    completed = CompletedFetch(A, 0, data, committed=False, checks_crc=True)
    found = list(completed.take(1000, cuts_batch=cuts_batch, bytes_enough=content + spare))
    assert [len(part) for part in found] == [10] * batches
    rest = list(completed.take(1000, cuts_batch=cuts_batch))
    assert [offset for part in (*found, *rest) for offset in part.offsets] == list(range(50))
    assert completed.is_drained


def test_polls_of_large_values_return_every_record_once_within_the_bytes() -> None:
    reader = Reader([A, B])
    value = bytes(BYTES_ENOUGH // 2)
    for log in reader.broker.logs.values():
        for _ in range(3):
            builder = BatchBuilder(Codec.GZIP, base_offset=log.end, leader_epoch=3)
            builder.append(None, value, (), 1000)
            log.end += 1
            log.batches.append(builder.build())
    found = []
    reader.fetch()
    while records := reader.poll():
        assert len(records) <= 2
        found += [(record.partition, record.offset) for record in records]
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(3)]
