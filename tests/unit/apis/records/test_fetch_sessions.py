"""Fetch sessions on a complete broker: incremental responses, and how a session is created, refused and closed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pykbroker.apis.records.fetch.fetch import Fetch
from pykbroker.apis.records.fetch.locate import ReadRights
from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import Fetching, SessionPartition
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.operation import Operation
from pykbroker.core.security.session import Session
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.follower_fetches import FollowerFetches
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.quotas import ReplicationQuotas
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.leader_hints import LeaderHints
from tests.unit.apis.calling import context
from tests.unit.apis.conftest import Client, LocalBroker, batch, serving
from tests.unit.replica.partition.test_reading import FakeLog, located
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

LONG_MS = 600_000
HINTS = LeaderHints(MetadataImage, BrokerEndpoints(1, MetadataImage))
BY_ID_VERSION_FIRST = 13


class FetchingClient:
    """A consumer of one topic, requested by id if it has one and else by name. It keeps its session id and epoch."""

    def __init__(self, client: Client, topic: str, topic_id: bytes = bytes(16), version: int = 0) -> None:
        self.client, self.topic, self.topic_id = client, topic, topic_id
        self.version = version or (17 if any(topic_id) else 12)
        self.id = self.epoch = 0

    def request(self, offsets: dict[int, int], forget: tuple[int, ...] = (), max_wait_ms: int = 0) -> FetchRequest:
        """Return the next request. `offsets` maps partitions to fetch offsets."""
        by_id = self.version >= BY_ID_VERSION_FIRST
        name, topic_id = ("", self.topic_id) if by_id else (self.topic, bytes(16))
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets.items()
        ]
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(name, topic_id, partitions)] if offsets else [],
            forgotten_topics_data=[ForgottenTopic(name, topic_id, list(forget))] if forget else [],
        )

    def results(self, response: FetchResponse) -> dict[int, tuple[int, int, bool]]:
        """Map each partition to (error code, high watermark, whether the response has records)."""
        assert response.error_code == 0
        self.id, self.epoch = response.session_id, self.epoch + 1
        return {
            one.partition_index: (one.error_code, one.high_watermark, bool(one.records))
            for topic in response.responses
            for one in topic.partitions
        }

    async def fetch(
        self, offsets: dict[int, int] | None = None, forget: tuple[int, ...] = (), max_wait_ms: int = 0
    ) -> dict[int, tuple[int, int, bool]]:
        return self.results(await self.client.call(self.request(offsets or {}, forget, max_wait_ms), self.version))


@pytest.mark.parametrize("version", range(7, 19))
async def test_an_incremental_response_has_only_changed_partitions(client: Client, version: int) -> None:
    topic_id = await client.create("b", 3)
    session = FetchingClient(client, "b", topic_id, version)
    assert await session.fetch({0: 0, 1: 0, 2: 0}) == dict.fromkeys(range(3), (0, 0, False))
    assert session.id > 0
    assert await session.fetch() == {}
    await client.produce("b", batch(b"x"), partition=1)
    assert await session.fetch() == {1: (0, 1, True)}
    assert await session.fetch({1: 1}) == {}
    assert await session.fetch({1: 0}) == {1: (0, 1, True)}


@pytest.mark.parametrize("version", [4, 5, 6])
async def test_versions_without_sessions_get_all_partitions(client: Client, version: int) -> None:
    for _ in range(2):
        session = FetchingClient(client, "a", version=version)
        assert await session.fetch({0: 0, 1: 0}) == {0: (0, 0, False), 1: (0, 0, False)}
        assert session.id == 0


async def test_an_append_completes_a_waiting_incremental_fetch(client: Client, local_broker: LocalBroker) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0, 1: 0})
    await client.send(session.request({}, max_wait_ms=LONG_MS), 12)
    other = await local_broker.connect()
    await other.produce("a", batch(b"x"), partition=1)
    assert session.results(await client.receive()) == {1: (0, 1, True)}


async def test_an_incremental_fetch_without_new_records_is_empty_after_max_wait_ms(client: Client) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0})
    before = trio.current_time()
    assert await session.fetch(max_wait_ms=50) == {}
    assert trio.current_time() - before >= 0.05


async def test_partitions_are_added_to_a_session_and_removed(client: Client) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0, 1: 0})
    assert await session.fetch({2: 0}, forget=(0,)) == {2: (0, 0, False)}
    for partition in range(3):
        await client.produce("a", batch(b"x"), partition=partition)
    assert set(await session.fetch()) == {1, 2}


async def test_partitions_take_turns_when_max_bytes_is_reached(client: Client) -> None:
    session = FetchingClient(client, "a")
    for partition in range(3):
        await client.produce("a", batch(bytes(5000)), partition=partition)
    await session.fetch(dict.fromkeys(range(3), 1))
    first = []
    for offsets in ({0: 0, 1: 0, 2: 0}, {}, {}, {}):
        request = session.request(offsets)
        request.max_bytes = 1000
        results = session.results(await client.call(request, 12))
        first += [partition for partition, (_, _, has_records) in results.items() if has_records]
    assert first == [0, 1, 2, 0]


async def test_an_unknown_session_is_refused(client: Client) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0})
    for change, code in (
        ({"session_id": session.id + 1}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_id": -5}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_epoch": 2}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ({"session_epoch": -7}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ):
        request = session.request({})
        for name, value in change.items():
            setattr(request, name, value)
        response = await client.call(request, 12)
        assert (response.error_code, response.session_id, response.responses) == (code, 0, [])
    response = await client.call(session.request({}), 13)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await session.fetch() == {}


async def test_a_session_epoch_is_accepted_from_one_connection_only(client: Client, local_broker: LocalBroker) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0})
    await client.send(session.request({}, max_wait_ms=LONG_MS), 12)
    other = await local_broker.connect()
    with trio.fail_after(10):
        while (await other.call(session.request({}), 12)).error_code != ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            await trio.lowlevel.checkpoint()  # Continue once the waiting fetch has arrived.
    session.epoch += 1
    assert session.results(await other.call(session.request({}), 12)) == {}
    await other.produce("a", batch(b"x"))
    response = await client.receive()
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id)


async def test_a_session_is_closed_by_its_client(client: Client) -> None:
    session = FetchingClient(client, "a")
    await session.fetch({0: 0})
    request = session.request({0: 0})
    request.session_epoch = -1
    response = await client.call(request, 12)
    assert (response.error_code, response.session_id) == (0, 0)
    assert (await client.call(session.request({}), 12)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_no_session_is_created_if_session_slots_are_set_to_zero(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), max_incremental_fetch_session_cache_slots="0") as local_broker:
        session = FetchingClient(await local_broker.connect(), "a")
        assert await session.fetch({0: 0}) == {0: (0, 0, False)}
        assert session.id == 0


async def delete(client: Client, topic: str) -> None:
    request = DeleteTopicsRequest(timeout_ms=1000, topics=[DeleteTopicState(name=topic)])
    assert (await client.call(request, 6)).responses[0].error_code == 0


async def test_a_session_with_topic_ids_reports_a_deleted_or_recreated_topic(client: Client) -> None:
    topic_id = await client.create("b", 2)
    await client.produce("b", batch(b"x"))
    session = FetchingClient(client, "b", topic_id)
    await session.fetch({0: 1, 1: 0})
    await delete(client, "b")
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, False)
    assert await session.fetch() == {0: gone, 1: gone}
    await client.create("b", 1)
    assert await session.fetch() == {0: (ErrorCode.INCONSISTENT_TOPIC_ID, -1, False), 1: gone}


async def test_a_topic_that_was_recreated_under_another_id_completes_a_waiting_fetch(client: Client) -> None:
    ids = [await client.create("a1"), await client.create("b")]
    session = FetchingClient(client, "a1", ids[0])
    request = session.request({0: 0})
    request.topics += [FetchTopic("", ids[1], [FetchPartition(partition=0, partition_max_bytes=1 << 20)])]
    session.results(await client.call(request, session.version))
    await delete(client, "b")
    assert await session.fetch() == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, False)}
    await client.create("b")
    assert await session.fetch(max_wait_ms=LONG_MS) == {0: (ErrorCode.INCONSISTENT_TOPIC_ID, -1, False)}


async def test_a_session_with_topic_names_continues_with_the_recreated_topic(client: Client) -> None:
    await client.create("b")
    await client.produce("b", batch(b"x"))
    session = FetchingClient(client, "b")
    assert await session.fetch({0: 1}) == {0: (0, 1, False)}
    await delete(client, "b")
    assert await session.fetch() == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, False)}
    await client.create("b")
    assert await session.fetch() == {0: (ErrorCode.OFFSET_OUT_OF_RANGE, -1, False)}
    assert await session.fetch({0: 0}) == {0: (0, 0, False)}
    assert await session.fetch() == {}


async def test_an_unknown_topic_id_stays_in_the_session(client: Client) -> None:
    session = FetchingClient(client, "", b"unknown-unknown-")
    unknown = {0: (ErrorCode.UNKNOWN_TOPIC_ID, -1, False)}
    assert await session.fetch({0: 0}) == unknown
    assert session.id > 0
    assert await session.fetch() == unknown


async def test_an_unknown_topic_id_does_not_complete_a_waiting_fetch(client: Client) -> None:
    request = FetchingClient(client, "a").request({0: 0, 9: 0}, max_wait_ms=50)
    before = trio.current_time()
    response = await client.call(request, 12)
    assert trio.current_time() - before >= 0.05
    codes = {one.partition_index: one.error_code for topic in response.responses for one in topic.partitions}
    assert codes == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_fetch_does_not_wait_once_max_bytes_are_available(client: Client) -> None:
    one = batch(bytes(2000))
    await client.produce("a", one)
    request = FetchingClient(client, "a").request({0: 0}, max_wait_ms=LONG_MS)
    request.min_bytes, request.max_bytes = 1 << 30, 1000
    response = await client.call(request, 12)
    assert len(bytes(response.responses[0].partitions[0].records)) == len(one)


class OneTopic:
    """A double of `Replicas` whose topic "b" exists once `known` is set, and an authorizer that denies `denied`."""

    def __init__(self) -> None:
        ((self._partition, _),) = located(FakeLog(3))
        self.known, self.denied = False, set[Operation]()
        self.quotas = ReplicationQuotas(1)

    def topic(self, name: str, topic_id: bytes) -> SimpleNamespace:
        if not self.known:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return SimpleNamespace(name="b", partitions={0: self._partition})

    def partition(self, key: TopicPartition) -> Partition:
        if not self.known or key.partition:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._partition

    def allows(self, session: Session, operation: Operation, *_: Any) -> bool:
        return operation not in self.denied

    def basis(self, session: Session) -> frozenset[Operation]:
        return frozenset(self.denied)


def called(fetch: Fetch, request: FetchRequest, authorizer: Any) -> FetchResponse:
    answer = fetch(context(17, authorizer), request)
    assert isinstance(answer, FetchResponse)
    return answer


def test_an_unknown_topic_id_is_looked_up_in_each_fetch() -> None:
    one: Any = OneTopic()
    cache = FetchSessionCache(10, Random(0))
    followers = FollowerFetches(one, cache, IsrKeeper(OwnBroker()))
    fetch = Fetch(ReadRights(one), cache, lambda: 0, 1 << 20, HINTS, followers)
    session = FetchingClient(None, "b", b"B" * 16)  # type: ignore[arg-type]
    unknown = {0: (ErrorCode.UNKNOWN_TOPIC_ID, -1, False)}
    assert session.results(called(fetch, session.request({0: 0}), one)) == unknown
    assert session.results(called(fetch, session.request({}), one)) == unknown
    one.known = True
    assert session.results(called(fetch, session.request({}), one)) == {0: (0, 3, True)}
    one.denied = {Operation.READ}
    assert session.results(called(fetch, session.request({}), one)) == {
        0: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, False)
    }


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (Operation.READ, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Operation.CLUSTER_ACTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_a_follower_fetch_needs_cluster_action(operation: Operation, code: ErrorCode) -> None:
    one: Any = OneTopic()
    one.known, one.denied = True, {operation}
    cache = FetchSessionCache(10, Random(0))
    followers = FollowerFetches(one, cache, IsrKeeper(OwnBroker()))
    fetch = Fetch(ReadRights(one), cache, lambda: 0, 1 << 20, HINTS, followers)
    request = FetchingClient(None, "b", b"B" * 16).request({0: 0})  # type: ignore[arg-type]
    request.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    response = called(fetch, request, one)
    assert response.responses[0].partitions[0].error_code == code
    assert (response.session_id > 0) == (operation is Operation.READ)
    assert cache.statistics().sessions == (operation is Operation.READ)


@pytest.mark.parametrize(
    ("privileged", "denied", "is_denied"),
    [
        (False, Operation.READ, True),
        (False, Operation.CLUSTER_ACTION, False),
        (True, Operation.READ, False),
        (True, Operation.CLUSTER_ACTION, True),
    ],
)
def test_the_right_of_a_consumer_or_a_follower_is_asked_for_anew(
    privileged: bool, denied: Operation, is_denied: bool
) -> None:
    one: Any = OneTopic()
    one.denied = {denied}
    asked = FetchPartition(partition=3)
    found = [(SessionPartition(("b", 3), b"B" * 16, "b", asked), PartitionData(3, 0, 7, records=b"records"))]
    fetching = Fetching({}, by_id=False, privileged=privileged)
    ((_, data),) = ReadRights(one).still_readable(context(17, one), fetching, found)
    assert (data.partition_index, data.error_code, data.high_watermark, data.records) == (
        (3, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, b"") if is_denied else (3, 0, 7, b"records")
    )
