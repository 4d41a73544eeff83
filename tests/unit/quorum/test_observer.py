"""The fetches of an observer: their sizes, the time that a controller has to respond, and the pauses after failures."""

from __future__ import annotations

import errno
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.security import PLAINTEXT
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.log.epochs import LeaderEpochs, OffsetAndEpoch
from pykbroker.core.metadata.image import EMPTY
from pykbroker.quorum.metadata_fetches import FETCH_BYTES_MAX, MetadataFetch, MetadataFetches
from pykbroker.quorum.metadata_log import METADATA_TOPIC_ID
from pykbroker.quorum.observer import RECONNECT_MS, MetadataObserver
from pykbroker.quorum.observer_requests import ObserverIds
from pykbroker.quorum.observer_settings import WAIT_MS_MAX, ObserverSettings
from pykbroker.quorum.progress import LogProgress
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.sim.scripted.connection import NoAnswer
from tests.unit.client.conftest import Client, no_jitter
from tests.unit.replica.brokers import pause
from wire.api import ApiKey
from wire.apis import APIS
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData, SnapshotId
from wire.messages.fetch_snapshot import FetchSnapshotResponse

Clock = trio.testing.MockClock
OBSERVER = ObserverIds("cluster", 2, b"d" * 16)
RECONNECT_S = RECONNECT_MS / 1000


class EmptyLog:
    """The log of an observer that has nothing yet, on a full disk."""

    log_end_offset = last_epoch = 0
    directory = "/full"

    def __init__(self) -> None:
        part = SimpleNamespace(append=len, close=lambda: None)
        self.snapshots = SimpleNamespace(begin=lambda _snapshot: part)

    async def note_leader(self, leader_id: int, epoch: int) -> None: ...

    async def replay(self, high_watermark: int) -> None: ...

    def append(self, records: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Observed:
    """An observer of node 1, which answers fetches by `answers`. None stands for silence."""

    def __init__(self, client: Client, settings: ObserverSettings) -> None:
        self.fetches: list[tuple[float, Any]] = []
        self.snapshots: list[Any] = []
        self.data: PartitionData | None = None
        node = client.cluster.nodes[1]
        node.versions[ApiKey.FETCH_SNAPSHOT] = APIS[ApiKey.FETCH_SNAPSHOT].accepted
        node.scripts.append(self.answer)
        self.leader = QuorumLeader((Address("node1", 9092),))
        log: Any = EmptyLog()
        images: Any = SimpleNamespace(committed=EMPTY, current=EMPTY)
        snapshotter: Any = SimpleNamespace()
        self.observer = MetadataObserver(
            OBSERVER, log, images, self.leader, client.net, snapshotter, lambda: 0, no_jitter, settings
        )

    async def answer(self, node: Any, header: Any, request: Any) -> Any:
        if header.key == ApiKey.FETCH_SNAPSHOT:
            self.snapshots.append(request)
            return FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        if header.key != ApiKey.FETCH:
            return None
        self.fetches.append((trio.current_time(), request))
        if self.data is None:
            raise NoAnswer
        await pause(0.001)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[self.data])])

    async def run(self, seconds: float) -> list[float]:
        """Observe for some time, and return the times between fetches."""
        with trio.move_on_after(seconds):
            await self.observer.run()
        times = [time for time, _ in self.fetches]
        return [after - before for before, after in pairwise(times)]


def led(**fields: Any) -> PartitionData:
    return PartitionData(current_leader=LeaderIdAndEpoch(1, 1), **fields)


def test_the_limits_are_set_by_kafkas_configs() -> None:
    prefix = "controller.quorum."
    texts = {
        f"{prefix}fetch.max.bytes": "1",
        f"{prefix}fetch.snapshot.max.bytes": "2",
        f"{prefix}request.timeout.ms": "3",
        f"{prefix}retry.backoff.ms": "4",
        "socket.connection.setup.timeout.ms": "5",
        "socket.connection.setup.timeout.max.ms": "6",
    }
    configured = ObserverSettings.of(BrokerConfig.from_mapping(texts), PLAINTEXT)
    assert configured == ObserverSettings(1, 2, 3, 4, LinkSettings(5, 6))
    assert ObserverSettings.of(BrokerConfig.from_mapping({}), PLAINTEXT) == ObserverSettings()


async def test_fetches_ask_for_the_bytes_of_the_configs(autojump_clock: Clock, client: Client) -> None:
    observed = Observed(client, ObserverSettings(fetch_bytes_max=12_345, snapshot_bytes_max=6789))
    observed.data = led(snapshot_id=SnapshotId(end_offset=10, epoch=1))
    await observed.run(0.1)
    _, request = observed.fetches[0]
    assert (request.max_bytes, request.topics[0].partitions[0].partition_max_bytes) == (12_345, 12_345)
    assert observed.snapshots[0].max_bytes == 6789


@pytest.mark.parametrize(
    ("request_ms", "retry_ms", "between_s"),
    [(300, 20, 0.3 + RECONNECT_S), (300, 200, 0.3 + 0.2), (2000, 20, 2 + RECONNECT_S)],
)
async def test_a_silent_controller_is_left_after_the_request_timeout_and_asked_again_after_the_backoff(
    autojump_clock: Clock, client: Client, request_ms: int, retry_ms: int, between_s: float
) -> None:
    observed = Observed(client, ObserverSettings(request_ms_max=request_ms, retry_ms=retry_ms))
    assert (await observed.run(5))[0] == pytest.approx(between_s)


async def test_a_stopped_process_was_silent_until_it_has_newer_metadata(autojump_clock: Clock, client: Client) -> None:
    observed = Observed(client, ObserverSettings())
    observer, observed.data = observed.observer, led()
    assert not observer.was_silent(0)
    await observed.run(1)
    assert not observer.was_silent(0.1)
    await pause(3)
    assert observer.was_silent(2.9)
    assert not observer.was_silent(3.1)
    await observed.run(0.5)
    assert not observer.was_silent(0.1)


async def test_metadata_that_is_not_applied_yet_does_not_end_the_silence(autojump_clock: Clock, client: Client) -> None:
    observed = Observed(client, ObserverSettings())
    observer, observed.data = observed.observer, led()
    await observed.run(1)
    images: Any = SimpleNamespace(
        current=SimpleNamespace(offset=4), committed=SimpleNamespace(offset=5), wait_for=trio.sleep
    )
    observer.images, observer.applies = images, True
    await observed.run(3)
    assert observer.was_silent(2.9)
    images.current = images.committed
    await observed.run(6)
    assert not observer.was_silent(1)


async def test_a_full_disk_is_no_failure_of_the_controller(
    autojump_clock: Clock, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = Observed(client, ObserverSettings(retry_ms=200))
    observed.data = led(records=b"a batch")
    lost: list[Address] = []
    monkeypatch.setattr(observed.leader, "lost", lost.append)
    between_s = await observed.run(5)
    assert between_s[1:] == pytest.approx([0.2] * (len(between_s) - 1), abs=0.02)
    assert lost == []


async def test_while_the_controller_is_silent_the_observer_is_not(autojump_clock: Clock, client: Client) -> None:
    observed = Observed(client, ObserverSettings(request_ms_max=300))
    await observed.run(5)
    assert len(observed.fetches) > 10
    assert not observed.observer.was_silent(0.4)


async def test_a_controller_that_sends_no_api_versions_is_left_after_the_request_timeout(
    autojump_clock: Clock, client: Client
) -> None:
    async def be_silent(node: Any, header: Any, request: Any) -> Any:
        raise NoAnswer

    client.cluster.nodes[1].scripts.append(be_silent)
    await Observed(client, ObserverSettings(request_ms_max=300)).run(1)
    times = [time for time, _ in client.net.attempts]
    assert times[1] - times[0] == pytest.approx(0.3 + RECONNECT_S)


async def test_a_controller_that_accepts_no_connection_is_left_after_the_setup_timeout(
    autojump_clock: Clock, client: Client
) -> None:
    client.net.black_holes.add("node1")
    settings = ObserverSettings(links=LinkSettings(setup_timeout_ms=1000, setup_timeout_ms_max=3000))
    await Observed(client, settings).run(8)
    times = [time for time, _ in client.net.attempts]
    lasted = [after - before for before, after in pairwise(times)]
    assert lasted == [
        pytest.approx(1 + RECONNECT_S),
        pytest.approx(2 + 2 * RECONNECT_S),
        pytest.approx(3 + 2 * RECONNECT_S),
    ]


@pytest.mark.parametrize("retry_ms", [20, 700])
async def test_a_fetch_that_the_leader_refuses_is_sent_again_after_the_backoff(
    autojump_clock: Clock, client: Client, retry_ms: int
) -> None:
    observed = Observed(client, ObserverSettings(retry_ms=retry_ms))
    observed.data = led(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    observed.leader.found(1, 1, Address("node1", 9092))
    assert (await observed.run(2))[0] == pytest.approx(retry_ms / 1000 + 0.001)


@pytest.mark.parametrize(("request_ms", "wait_ms"), [(10, 5), (2 * WAIT_MS_MAX, WAIT_MS_MAX), (2000, WAIT_MS_MAX)])
async def test_the_leader_waits_for_records_for_at_most_half_of_the_request_timeout(
    autojump_clock: Clock, client: Client, request_ms: int, wait_ms: int
) -> None:
    observed = Observed(client, ObserverSettings(request_ms_max=request_ms))
    await observed.run(0.1)
    assert observed.fetches[0][1].max_wait_ms == wait_ms


@pytest.mark.parametrize("asked", [1, FETCH_BYTES_MAX - 1, FETCH_BYTES_MAX, FETCH_BYTES_MAX + 1])
async def test_a_leader_sends_what_was_asked_for_up_to_a_limit(asked: int) -> None:
    read: list[int] = []
    snapshot = OffsetAndEpoch(2, 1)

    class Source:
        """A log of five records, and a snapshot. Both note how much is read."""

        log_start_offset, log_end_offset = 0, 5
        epochs = LeaderEpochs([(1, 0)])

        async def read_patiently(self, offset: int, bytes_max: int, upper: int, *, at_least_one: bool) -> bytes:
            read.append(bytes_max)
            return b""

        async def read_part(self, snapshot: Any, position: int, bytes_max: int) -> bytes:
            read.append(bytes_max)
            return b""

        def ids(self) -> list[OffsetAndEpoch]:
            return [snapshot]

        def size(self, snapshot: Any) -> int:
            return 2 * FETCH_BYTES_MAX

    source: Any = Source()
    images: Any = SimpleNamespace(committed=EMPTY)
    fetches = MetadataFetches(1, source, images, source, LogProgress(), lambda: 0)
    await fetches.fetch(MetadataFetch(1, 3, 1, 0, asked), -1, bytes(16), 0)
    await fetches.read_snapshot(OffsetAndEpoch(2, 1), 0, asked)
    assert read == [min(asked, FETCH_BYTES_MAX)] * 2
