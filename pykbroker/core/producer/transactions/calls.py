"""The requests of the transaction protocol, each with its coordinator, its priority, and the reading of its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Protocol

from pykbroker.core.producer.sequences import ProducerIdentity
from pykbroker.core.producer.transactions import reactions
from pykbroker.core.producer.transactions.reactions import Reactions
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.declare import Request
from wire.error_codes import ErrorCode, error_code
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

VERSION_MAX = 0x7FFF
"""A maximum that leaves the choice of the version to the client."""
VERSION_1_MAX = 4
"""The newest version of EndTxn and TxnOffsetCommit for transaction version 1."""
ADD_PARTITIONS_MAX = 3
"""The newest version of AddPartitionsToTxn that clients send. Later versions are those of brokers."""

UNANSWERED = ErrorCode.NETWORK_EXCEPTION
"""The error of a partition that the response leaves out. The request for it is repeated."""


class CoordinatorKind(Enum):
    """The kind of coordinator that answers a request."""

    GROUP = 0
    TRANSACTION = 1


class GroupMember(Protocol):
    """The consumer whose offsets are committed. The epoch is the generation of a classic member, or the member epoch.

    Without a membership, the epoch is -1 and the member id is empty.
    """

    @property
    def group_id(self) -> str: ...

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int:
        """Return the generation or the member epoch."""

    @property
    def instance_id(self) -> str | None:
        """Return the id of a static member, or None."""


class OffsetToCommit(Protocol):
    """An offset to commit: that of the next record, the leader epoch of the record before it or -1, and a text."""

    @property
    def offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def metadata(self) -> str | None: ...


class CoordinatorCall(ABC):
    """A request to a coordinator, until its final answer. `key` is the transactional id or the group id."""

    priority: ClassVar[int]
    """The place among waiting requests. A smaller number goes first."""
    reactions: Reactions
    coordinator: ClassVar = CoordinatorKind.TRANSACTION
    version_max: int = VERSION_MAX
    begins_transaction: ClassVar = False
    """Whether the request begins the transaction at its coordinator."""
    may_be_handled = False
    """Whether the request was lost after it had been sent."""
    due_ms: float = float("-inf")
    """The time before which the request is not sent."""

    def __init__(self, key: str, result: CallResult | None) -> None:
        self.key, self.result = key, result

    @property
    def api(self) -> str:
        return type(self.request()).__name__.removesuffix("Request")

    def complete(self, error: Exception | None = None) -> None:
        """Set the result of the application's call, if the request belongs to one."""
        if self.result is not None:
            self.result.complete(error)

    @abstractmethod
    def request(self) -> Request[Any]: ...

    @abstractmethod
    def codes(self, response: Any) -> dict[str, ErrorCode]:
        """Return the error codes in the response, by partition, or by the key for a single code."""


class InitProducerIdCall(CoordinatorCall):
    """The request for a producer id, or, with the current one, for the next epoch."""

    priority = 0
    reactions = reactions.INIT_PRODUCER_ID

    def __init__(self, key: str, result: CallResult | None, timeout_ms: int, current: ProducerIdentity) -> None:
        super().__init__(key, result)
        self.timeout_ms, self.current = timeout_ms, current

    def request(self) -> InitProducerIdRequest:
        return InitProducerIdRequest(self.key, self.timeout_ms, *self.current)

    def codes(self, response: InitProducerIdResponse) -> dict[str, ErrorCode]:
        return {self.key: error_code(response.error_code)}


class AddPartitionsCall(CoordinatorCall):
    """The request to add partitions to the transaction, up to transaction version 1."""

    priority = 1
    reactions = reactions.ADD_PARTITIONS
    begins_transaction = True
    version_max = ADD_PARTITIONS_MAX

    def __init__(self, key: str, identity: ProducerIdentity) -> None:
        super().__init__(key, None)
        self.identity, self.partitions = identity, set[TopicPartition]()

    def request(self) -> AddPartitionsToTxnRequest:
        topics = [AddPartitionsToTxnTopic(*each) for each in indexes_by_topic(sorted(self.partitions)).items()]
        return AddPartitionsToTxnRequest([], self.key, *self.identity, topics)

    def codes(self, response: AddPartitionsToTxnResponse) -> dict[str, ErrorCode]:
        codes = {
            TopicPartition(topic.name, each.partition_index): error_code(each.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return {str(partition): codes.get(partition, UNANSWERED) for partition in self.partitions}


class AddOffsetsCall(CoordinatorCall):
    """The request to add the offsets of a group to the transaction, up to transaction version 1."""

    priority = 1
    reactions = reactions.ADD_OFFSETS
    begins_transaction = True

    def __init__(self, key: str, identity: ProducerIdentity, then: TxnOffsetCommitCall) -> None:
        super().__init__(key, then.result)
        self.result: CallResult
        self.identity, self.then = identity, then

    def request(self) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(self.key, *self.identity, self.then.key)

    def codes(self, response: AddOffsetsToTxnResponse) -> dict[str, ErrorCode]:
        return {f"group '{self.then.key}'": error_code(response.error_code)}


class TxnOffsetCommitCall(CoordinatorCall):
    """The request to commit the offsets of a group with the transaction."""

    priority = 1
    reactions = reactions.TXN_OFFSET_COMMIT
    coordinator = CoordinatorKind.GROUP

    def __init__(
        self,
        result: CallResult,
        transactional_id: str,
        identity: ProducerIdentity,
        member: GroupMember,
        offsets: Mapping[TopicPartition, OffsetToCommit],
    ) -> None:
        super().__init__(member.group_id, result)
        self.transactional_id, self.identity, self.member = transactional_id, identity, member
        self.offsets = dict(offsets)
        """The offsets that are not committed yet."""

    def request(self) -> TxnOffsetCommitRequest:
        topics = [
            TxnOffsetCommitRequestTopic(topic, [self._partition(TopicPartition(topic, index)) for index in indexes])
            for topic, indexes in indexes_by_topic(sorted(self.offsets)).items()
        ]
        member = self.member
        return TxnOffsetCommitRequest(
            self.transactional_id,
            self.key,
            *self.identity,
            generation_id=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=topics,
        )

    def _partition(self, partition: TopicPartition) -> TxnOffsetCommitRequestPartition:
        each = self.offsets[partition]
        return TxnOffsetCommitRequestPartition(partition.partition, each.offset, each.epoch, each.metadata)

    def codes(self, response: TxnOffsetCommitResponse) -> dict[str, ErrorCode]:
        """Return the error code of each partition. Forget the offsets that are committed."""
        codes = {
            TopicPartition(topic.name, each.partition_index): error_code(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        found = {partition: codes.get(partition, UNANSWERED) for partition in self.offsets}
        self.offsets = {partition: each for partition, each in self.offsets.items() if found[partition]}
        return {str(partition): code for partition, code in found.items()}


class EndTxnCall(CoordinatorCall):
    """The request to commit or abort the transaction."""

    priority = 2

    def __init__(self, key: str, result: CallResult, identity: ProducerIdentity, *, commit: bool) -> None:
        super().__init__(key, result)
        self.identity, self.commit = identity, commit
        self.reactions = reactions.COMMIT if commit else reactions.ABORT

    def request(self) -> EndTxnRequest:
        return EndTxnRequest(self.key, *self.identity, self.commit)

    def codes(self, response: EndTxnResponse) -> dict[str, ErrorCode]:
        return {self.key: error_code(response.error_code)}
