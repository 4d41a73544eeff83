"""Transcripts of the controller's decisions in `*.txt` beside this file.

A line that begins with ">" is a request. The lines after it are the response and then the written records, each after a
"+". Each file tells of one cluster from its first start on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.elect_leaders import Election
from pykbroker.core.metadata.notices import BrokerGone
from tests.unit.core.metadata.harness import ControllerHarness, topic
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages import alter_configs
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from wire.messages.alter_configs import AlterConfigsRequest
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

OPERATIONS = {"set": 0, "unset": 1, "append": 2, "subtract": 3}
UNTOLD = ("topic_id", "incarnation_id", "features", "end_points", "log_dirs", "directories", "stored_key", "server_key")
PLAYS = sorted(Path(__file__).parent.glob("*.txt"))


class TranscriptRunner:
    """An interpreter of transcripts. Each method runs one command and yields the lines of its result."""

    def __init__(self) -> None:
        self.harness = ControllerHarness(num_partitions=2).bootstrap().activate()
        self.epochs: dict[int, int] = {}
        self.topic_ids: dict[str, bytes] = {}

    def perform(self, line: str) -> list[str]:
        command, *words = shlex.split(line)
        self.harness.decided = ()
        act: Callable[..., Iterator[str]] = getattr(self, command)
        try:
            lines: list[str] = list(act(*words))
        except ApiError as error:
            lines = [f"{error.code.name}: {error.message}"]
        decided: Sequence[Any] = self.harness.decided
        return lines + [f"+ {self.tell(record)}" for record in decided]

    def create(self, *words: str) -> Iterator[str]:
        """Run `create [validate_only] topic[:partitions[:replicas]][;config=value...][;0=1,2;1=2,1...] ...`."""
        topics = [self._topic(word) for word in words if word != "validate_only"]
        response = self.harness.ask(CreateTopicsRequest(topics=topics, validate_only="validate_only" in words))
        for result in response.topics:
            self.topic_ids.setdefault(result.name, result.topic_id)
            yield self._line(
                result,
                f"partitions={result.num_partitions} replicas={result.replication_factor} "
                + " ".join(f"{config.name}={config.value}" for config in result.configs),
            )

    def _topic(self, word: str) -> CreatableTopic:
        head, *rest = word.split(";")
        name, *numbers = head.split(":")
        pairs = [pair.partition("=")[::2] for pair in rest]
        configs: dict[str, Any] = {
            key.replace(".", "_"): None if value == "null" else value for key, value in pairs if not key.isdigit()
        }
        made = topic(name, *map(int, numbers or ("-1", "-1")), **configs)
        made.assignments = [
            CreatableReplicaAssignment(partition_index=int(key), broker_ids=ids(value))
            for key, value in pairs
            if key.isdigit()
        ]
        return made

    def delete(self, *words: str) -> Iterator[str]:
        """Run `delete name | id:topic | name,id:topic | nothing`."""
        response = self.harness.ask(DeleteTopicsRequest(topics=[self._state(word) for word in words]))
        for result in response.responses:
            yield self._line(result)

    def _state(self, word: str) -> DeleteTopicState:
        name, _, identified = word.partition("id:")
        return DeleteTopicState(
            name=None if word == "nothing" else name.rstrip(",") or None,
            topic_id=self.topic_ids.get(identified, b"nobody's id here") if identified else NIL,
        )

    def grow(self, *words: str) -> Iterator[str]:
        """Run `grow name:count[;1,2;2,1...] ...`."""
        topics = []
        for word in words:
            head, *rest = word.split(";")
            name, count = head.split(":")
            assignments = [CreatePartitionsAssignment(broker_ids=ids(part)) for part in rest] or None
            topics.append(CreatePartitionsTopic(name=name, count=int(count), assignments=assignments))
        for result in self.harness.ask(CreatePartitionsRequest(topics=topics)).results:
            yield self._line(result)

    def elect(self, kind: str, *words: str) -> Iterator[str]:
        """Run `elect preferred|unclean|number topic:partition,... ...`; without topics, for all partitions."""
        asked = [TopicPartitions(name, ids(indexes)) for name, _, indexes in (word.partition(":") for word in words)]
        election = Election[kind.upper()] if kind.isalpha() else int(kind)
        response = self.harness.ask(ElectLeadersRequest(election_type=election, topic_partitions=asked or None))
        for result in response.replica_election_results:
            for one in result.partition_result:
                yield f"{result.topic}:{one.partition_id} {self._outcome(one)}"

    def reassign(self, *words: str) -> Iterator[str]:
        """Run `reassign [same_size] topic:partition=1,2 topic:partition=null ...`."""
        topics = []
        for word in words:
            place, _, replicas = word.partition("=")
            name, _, index = place.partition(":")
            if index:
                wanted = None if replicas == "null" else ids(replicas)
                topics.append(ReassignableTopic(name, [ReassignablePartition(int(index), wanted)]))
        response = self.harness.ask(
            AlterPartitionReassignmentsRequest(allow_replication_factor_change="same_size" not in words, topics=topics)
        )
        for result in response.responses:
            for one in result.partitions:
                yield f"{result.name}:{one.partition_index} {self._outcome(one)}"

    def register(self, broker: str, incarnation: str = "1", previous: str = "-1", *options: str) -> Iterator[str]:
        """Run `register broker [incarnation [previous epoch [dirs=abc] [rack=name]]]`; a letter is a directory."""
        given = dict(option.split("=") for option in options)
        self.epochs[int(broker)] = self.harness.register(
            int(broker),
            int(incarnation),
            int(previous),
            log_dirs=directories(given.get("dirs", "")),
            rack=given.get("rack"),
        )
        yield f"epoch {self.epochs[int(broker)]}"

    def beat(self, broker: str, *wants: str) -> Iterator[str]:
        """Run `beat broker [want_fence] [want_shut_down] [offset=n] [offline=ab] [cordoned=ab]`."""
        given: dict[str, Any] = {}
        for want in wants:
            name, sign, value = want.partition("=")
            if name == "offset":
                given["current_metadata_offset"] = int(value)
            else:
                given[f"{name}_log_dirs" if sign else name] = directories(value) if sign else True
        response = self.harness.beat(int(broker), self.epochs.get(int(broker), 0), **given)
        behind = "" if response.is_caught_up else " behind"
        yield f"fenced={response.is_fenced} should_shut_down={response.should_shut_down}{behind}"

    def gone(self, broker: str, *refused: str) -> Iterator[str]:
        """Run `gone broker [refused]`."""
        self.harness.notify(BrokerGone(int(broker), self.epochs[int(broker)], bool(refused)))
        yield from ()

    def wait(self, ms: str) -> Iterator[str]:
        """Run `wait ms`; the records of each tick are a batch."""
        batches = self.harness.pass_time(float(ms))
        yield f"batches of {[len(batch) for batch in batches]} records"

    def keep(self, broker: str, ms: str) -> Iterator[str]:
        """Run `keep broker ms`: time passes, and the broker keeps its session."""
        batches = []
        for _ in range(int(ms) // 1_000):
            batches += self.harness.pass_time(1_000)
            self.harness.beat(int(broker), self.epochs[int(broker)])
        self.harness.decided = tuple(record for batch in batches for record in batch)
        yield f"batches of {[len(batch) for batch in batches]} records"

    def place(self, broker: str, *words: str) -> Iterator[str]:
        """Run `place broker topic:partition=letter ...`: the broker reports the directories of replicas."""
        asked = []
        for word in words:
            place, _, letter = word.partition("=")
            name, _, index = place.partition(":")
            data = AssignReplicasToDirsRequestTopicData(
                self.topic_ids.get(name, b"nobody's id here"), [AssignReplicasToDirsRequestPartitionData(int(index))]
            )
            asked.append(AssignReplicasToDirsRequestDirectoryData(directories(letter)[0], [data]))
        request = AssignReplicasToDirsRequest(int(broker), self.epochs[int(broker)], asked)
        for word, directory in zip(words, self.harness.ask(request).directories, strict=True):
            yield f"{word} {self._outcome(directory.topics[0].partitions[0])}"

    def isr(self, leader: str, place: str, members: str, *options: str) -> Iterator[str]:
        """Run `isr leader[@epoch] topic:partition member[@epoch],... [leader_epoch=+1] [partition_epoch=-1]
        [recovering]`; epochs of the partition are relative to the current ones.

        A member without "@" has its current broker epoch, and one with "@-" none, as in version 2 of the request.
        """
        sender, at, epoch = leader.partition("@")
        name, _, index = place.partition(":")
        offset = dict(option.split("=") for option in options if "=" in option)
        now = self.harness.freeze().image.topics.partition(name, int(index))
        new = [self._member(member) for member in members.split(",") if member != "nobody"]
        data = AlterPartitionRequestPartitionData(
            partition_index=int(index),
            leader_epoch=(now.leader_epoch if now else 0) + int(offset.get("leader_epoch", 0)),
            partition_epoch=(now.partition_epoch if now else 0) + int(offset.get("partition_epoch", 0)),
            new_isr=[state.broker_id for state in new] if "@-" in members else [],
            new_isr_with_epochs=[] if "@-" in members else new,
            leader_recovery_state=int("recovering" in options),
        )
        topic_id = self.topic_ids.get(name, b"nobody's id here")
        request = AlterPartitionRequest(
            int(sender),
            int(epoch) if at else self.epochs[int(sender)],
            [AlterPartitionRequestTopicData(topic_id, [data])],
        )
        ((result,),) = (topic.partitions for topic in self.harness.ask(request).topics)
        yield (
            self._outcome(result)
            if result.error_code
            else f"leader={result.leader_id} epochs={result.leader_epoch}/{result.partition_epoch} isr={result.isr} "
            f"recovering={result.leader_recovery_state}"
        )

    def _member(self, text: str) -> BrokerState:
        broker, at, epoch = text.partition("@")
        return BrokerState(int(broker), -1 if epoch == "-" else int(epoch) if at else self.epochs.get(int(broker), 0))

    def ids(self, broker: str, epoch: str = "") -> Iterator[str]:
        """Run `ids broker [epoch]`."""
        response = self.harness.ask(
            AllocateProducerIdsRequest(broker_id=int(broker), broker_epoch=int(epoch or self.epochs[int(broker)]))
        )
        yield f"{response.producer_id_len} from {response.producer_id_start}"

    def feature(self, *words: str) -> Iterator[str]:
        """Run `feature [validate_only] name=level[:type] ...` with the type as a number; success yields no response
        line.
        """
        updates = []
        for word in words:
            if word != "validate_only":
                name, _, level = word.partition("=")
                level, _, kind = level.partition(":")
                updates.append(FeatureUpdateKey(name, int(level), upgrade_type=int(kind or 1)))
        self.harness.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only="validate_only" in words))
        yield " ".join(f"{name}={level}" for name, level in sorted(self.harness.machine.features.items()))

    def unregister(self, broker: str) -> Iterator[str]:
        """Run `unregister broker`."""
        self.harness.ask(UnregisterBrokerRequest(int(broker)))
        yield f"brokers {list(self.harness.freeze().image.cluster.brokers)}"

    def alter(self, *words: str) -> Iterator[str]:
        """Run `alter [validate_only] type:name;op:config[=value];... ...`; op is set, unset, append, subtract or a
        number.
        """
        resources = []
        for word in words:
            if word != "validate_only":
                (kind, name), *changes = (part.split(":", 1) for part in word.split(";"))
                resources.append(
                    AlterConfigsResource(
                        int(kind),
                        name,
                        [
                            AlterableConfig(config, int(OPERATIONS.get(operation, operation)), value if sign else None)
                            for operation, (config, sign, value) in (
                                (one, text.partition("=")) for one, text in changes
                            )
                        ],
                    )
                )
        response = self.harness.ask(IncrementalAlterConfigsRequest(resources, "validate_only" in words))
        for result in response.responses:
            yield self._line(result, name=f"{result.resource_type}:{result.resource_name}")

    def replace(self, *words: str) -> Iterator[str]:
        """Run `replace [validate_only] type:name;config[=value];... ...`."""
        resources = []
        for word in words:
            if word != "validate_only":
                head, *pairs = word.split(";")
                kind, name = head.split(":", 1)
                resources.append(
                    alter_configs.AlterConfigsResource(
                        int(kind),
                        name,
                        [
                            alter_configs.AlterableConfig(config, value if sign else None)
                            for config, sign, value in (pair.partition("=") for pair in pairs)
                        ],
                    )
                )
        response = self.harness.ask(AlterConfigsRequest(resources, "validate_only" in words))
        for result in response.responses:
            yield self._line(result, name=f"{result.resource_type}:{result.resource_name}")

    def quota(self, *words: str) -> Iterator[str]:
        """Run `quota [validate_only] user=a,client-id:rate=5,other=- ...`; a type alone is the default entity, "-"
        removes.
        """
        entries = []
        for word in words:
            if word != "validate_only":
                entity, _, ops = word.rpartition(":")
                entries.append(
                    AlterClientQuotasRequestEntryData(
                        [
                            EntityData(kind, name if sign else None)
                            for kind, sign, name in (part.partition("=") for part in entity.split(",") if part)
                        ],
                        [
                            OpData(key, 0.0 if value == "-" else float(value), value == "-")
                            for key, _, value in (op.partition("=") for op in ops.split(",") if op)
                        ],
                    )
                )
        request = AlterClientQuotasRequest(entries=entries, validate_only="validate_only" in words)
        for result in self.harness.ask(request).entries:
            name = ",".join(f"{part.entity_type}={part.entity_name}" for part in result.entity)
            yield self._line(result, name=name or "nobody")

    def scram(self, *words: str) -> Iterator[str]:
        """Run `scram set:user:mechanism:iterations | delete:user:mechanism ...`."""
        request = AlterUserScramCredentialsRequest()
        for word in words:
            act, user, *numbers = word.split(":")
            if act == "set":
                mechanism, iterations = map(int, numbers)
                request.upsertions.append(ScramCredentialUpsertion(user, mechanism, iterations, b"s", b"p"))
            else:
                request.deletions.append(ScramCredentialDeletion(user, *map(int, numbers)))
        for result in self.harness.ask(request).results:
            yield self._line(result, name=result.user or "nobody")

    def show(self, name: str) -> Iterator[str]:
        """Run `show topic`."""
        for index, partition in self.harness.freeze().image.topics.by_name[name].partitions.items():
            yield (
                f"{index}: leader={partition.leader} epoch={partition.leader_epoch} replicas={partition.replicas} "
                f"isr={partition.isr} elr={partition.elr} recovering={partition.recovering}"
                + (f" last_known_elr={partition.last_known_elr}" if partition.last_known_elr else "")
                + (
                    f" adding={partition.adding} removing={partition.removing}"
                    if partition.adding or partition.removing
                    else ""
                )
            )

    def _line(self, result: Any, details: str = "", name: str = "") -> str:
        return f"{name or result.name} {self._outcome(result) if result.error_code else details}".rstrip()

    def _outcome(self, result: Any) -> str:
        message = getattr(result, "error_message", None)
        return ErrorCode(result.error_code).name + (f": {message}" if message else "")

    def tell(self, record: Any) -> str:
        """Return the fields of a record that differ from their default, except random and secret fields."""
        plain = type(record)()
        fields = {name: getattr(record, name) for name in record.__struct_fields__ if name not in UNTOLD}
        fields_text = [f"{name}={value}" for name, value in fields.items() if value != getattr(plain, name)]
        return " ".join([type(record).__name__.removesuffix("Record"), *fields_text]).replace(", unknown_tags={}", "")


def directories(letters: str) -> list[bytes]:
    return [letter.encode() * 16 for letter in letters]


def ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
def test_each_transcript_matches_the_controller(play: Path) -> None:
    stage, lines = TranscriptRunner(), []
    for line in play.read_text().splitlines():
        if line.startswith("> "):
            lines += [line, *stage.perform(line[2:])]
        elif not line or line.startswith("#"):
            lines.append(line)
    assert "\n".join(lines) + "\n" == play.read_text()
