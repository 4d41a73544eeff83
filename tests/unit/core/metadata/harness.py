"""A harness for the controller's state machine: it appends and replays the decided records, as the controller does."""

from __future__ import annotations

import lzma
import random
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pykbroker.core.config.check import check_configs
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.bootstrap import bootstrap_records, feature_records
from pykbroker.core.metadata.features import NEW_CLUSTER, SUPPORTED
from pykbroker.core.metadata.image import EMPTY, Delta, MetadataImage
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.record import Record, read_record
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import finish
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicConfigs
from wire.records.batch import Batch, batches
from wire.records.record import records

GOLDEN = Path(__file__).parents[3] / "data" / "golden"
NOW_MS = 1_795_266_158_145
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
KNOWN_CONFIGS = ("cleanup.policy", "min.insync.replicas", "retention.ms", "unclean.leader.election.enable")
LIVE = LiveConfig(BrokerConfig.from_mapping({}))


class Configs:
    """A double of the tables of configs that accepts every config."""

    def validate(self, configs: Mapping[str, str], dynamic: Dynamic) -> None:
        for name in configs:
            if name not in KNOWN_CONFIGS:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")

    def check(self, resource: tuple[int, str], configs: Mapping[str, str], dynamic: Dynamic) -> None:
        check_configs(resource, configs, LIVE.under(dynamic))

    def describe(self, overrides: Mapping[str, str], dynamic: Dynamic) -> list[CreatableTopicConfigs]:
        values = {**dynamic.cluster, **dynamic.broker, **overrides}
        return [CreatableTopicConfigs(name=name, value=values[name]) for name in KNOWN_CONFIGS if name in values]


class ControllerHarness:
    """The controller's state machine and its log. `log` has every decided record, `decided` those of
    the last request.
    """

    def __init__(self, image: MetadataImage = EMPTY, **settings: Any) -> None:
        self.settings = ControllerSettings(**{"node_id": 1, "cluster_id": CLUSTER, **settings})
        self.configs = Configs()
        self.machine = ControllerMachine(self.settings, self.configs, random.Random(7), image)
        self.log: list[Entry[Record]] = []
        self.decided: tuple[Record, ...] = ()
        self.now_ms = 0.0

    def write(self, *written: Record) -> None:
        for record in written:
            entry = Entry(self.machine.next_offset, record)
            self.log.append(entry)
            self.machine.replay(entry)

    def ask(self, request: Request[Any]) -> Any:
        token = object()
        outcome = finish(self.machine.handle(request, token, Now(self.now_ms, NOW_MS)))
        self.decided = outcome.records
        self.write(*outcome.records)
        ((answered, response),) = outcome.replies
        assert answered is token
        return response

    def notify(self, notice: BrokerGone) -> None:
        """Pass on a notice, which has no reply."""
        outcome = finish(self.machine.handle(notice, None, Now(self.now_ms, NOW_MS)))
        assert not outcome.replies
        self.decided = outcome.records
        self.write(*outcome.records)

    def activate(self) -> ControllerHarness:
        """Begin the tasks of the controller, as after a start."""
        self.machine.loaded(Now(self.now_ms, NOW_MS))
        return self

    def pass_time(self, ms: float = 0) -> list[tuple[Record, ...]]:
        """Let time pass. Return the records of each tick that wrote any."""
        end_ms, ticks = self.now_ms + ms, []
        while (due_ms := self.machine.deadline_ms) <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            outcome = self.machine.tick(Now(self.now_ms, NOW_MS))
            assert not outcome.replies
            self.write(*outcome.records)
            ticks += [outcome.records] if outcome.records else []
        self.now_ms = end_ms
        self.decided = tuple(record for records in ticks for record in records)
        return ticks

    def freeze(self) -> Delta:
        return self.machine.freeze(1, NOW_MS)

    def bootstrap(self) -> ControllerHarness:
        self.write(*bootstrap_records(feature_records(NEW_CLUSTER), 1))
        return self

    def register(
        self,
        broker_id: int,
        incarnation: int = 1,
        previous_epoch: int = -1,
        cluster_id: str = CLUSTER,
        *,
        log_dirs: Sequence[bytes] = (),
        rack: str | None = None,
        features: Mapping[str, tuple[int, int]] = SUPPORTED,
    ) -> int:
        return self.ask(
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=cluster_id,
                incarnation_id=bytes(15) + bytes([incarnation]),
                rack=rack,
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
                features=[
                    Feature(name=name, min_supported_version=least, max_supported_version=most)
                    for name, (least, most) in features.items()
                ],
                log_dirs=list(log_dirs) or [bytes([broker_id]) * 16],
                previous_broker_epoch=previous_epoch,
            )
        ).broker_epoch

    def beat(self, broker_id: int, epoch: int, **wants: Any) -> Any:
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=epoch,
                **{"current_metadata_offset": self.machine.next_offset - 1, **wants},
            )
        )

    def open(self, *broker_ids: int) -> ControllerHarness:
        """Register and unfence brokers."""
        self.bootstrap()
        for broker_id in broker_ids:
            self.beat(broker_id, self.register(broker_id))
        return self

    def replayed(self) -> MetadataImage:
        """Return the image of another state machine that has replayed the whole log."""
        machine = ControllerMachine(self.settings, Configs(), random.Random(0))
        for entry in self.log:
            machine.replay(entry)
        return machine.freeze(1, NOW_MS).image


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    """Return a CreateTopics entry; "_" in config names stands for "."."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=config.replace("_", "."), value=value) for config, value in configs.items()],
    )


@cache
def golden(archive: str, member: str) -> bytes:
    """Return a file from a log directory that Apache Kafka wrote."""
    with lzma.open(GOLDEN / f"logdir-{archive}.tar.xz") as unpacked, tarfile.open(fileobj=unpacked) as files:
        content = files.extractfile(member)
        assert content is not None
        return content.read()


CLEAN_LOG = ("clean", "clean/__cluster_metadata-0/00000000000000000000.log")
SNAPSHOTTED = "snapshotted/__cluster_metadata-0/"


def golden_batches(archive: str, member: str) -> Iterator[tuple[Batch, list[Entry[Record]]]]:
    """Yield (batch, records) of a log or snapshot; a control batch has no records."""
    for batch in batches(golden(archive, member), strict=True):
        entries = (
            []
            if batch.is_control
            else [Entry(record.offset, read_record(record.value)) for record in records(batch, 1 << 20)]
        )
        yield batch, entries


def golden_harness(archive: str, member: str, until: int = 2**62) -> ControllerHarness:
    """Return a harness that has replayed the records of Kafka's log below an offset."""
    harness = ControllerHarness()
    for batch, entries in golden_batches(archive, member):
        if batch.base_offset >= until:
            break
        for entry in entries:
            harness.machine.replay(entry)
            harness.log.append(entry)
        harness.machine.skip(batch.last_offset)
    return harness
