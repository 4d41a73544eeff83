"""AddPartitionsToTxn (24), v0-5: partitions that a transaction is about to write to (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 several transactions, sent by brokers, also to verify (KIP-890)
v5 TRANSACTION_ABORTABLE
Where one partition cannot be added none is: the others are OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
import trio

from pykbroker.coordinator.transactions import Transactions, spoken
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import is_internal
from pykbroker.core.security.authorizer import CLUSTER_NAME, Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.permissions import permitted
from pykbroker.core.txn.requests import AddPartitions, Reply, Verified, VerifyPartitions
from pykbroker.core.txn.requests import Answer as Decided
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, TopicPartition
from pykbroker.server.handler import Answer, Context
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult, AddPartitionsToTxnTransaction,
)  # fmt: skip

FENCED_VERSION_FIRST, BROKERS_VERSION_FIRST = 2, 4


class AddPartitionsToTxn(msgspec.Struct, frozen=True):
    """A client's is plain while nothing has to be flushed first."""

    key: ClassVar = ApiKey.ADD_PARTITIONS_TO_TXN
    versions: ClassVar[str] = "0-5"
    transactions: Transactions
    image: Callable[[], MetadataImage]
    authorizer: Authorizer

    def __call__(self, context: Context, request: AddPartitionsToTxnRequest) -> Answer:
        if context.version >= BROKERS_VERSION_FIRST:
            if self.authorizer.allows(context.principal, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                return self._of_broker(request)
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        topics, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id

        def respond(reply: Reply) -> AddPartitionsToTxnResponse:
            assert isinstance(reply, Decided)
            code = spoken(reply.error_code, context.version, FENCED_VERSION_FIRST)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results(topics, {}, code))

        if not permitted(self.authorizer, context.principal, self.key, transactional_id):
            return respond(Decided(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        if refused := self._refused(topics, context.principal):
            refusal = results(topics, refused, ErrorCode.OPERATION_NOT_ATTEMPTED)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refusal)
        return self.transactions.ask(AddPartitions(
            transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, places(topics),
        ), respond)  # fmt: skip

    def refuse(self, request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
        """The same error for every partition, and for the whole where brokers ask."""
        refusal = results(request.v3_and_below_topics, {}, code)
        return AddPartitionsToTxnResponse(error_code=code, results_by_topic_v3_and_below=refusal)

    async def _of_broker(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        found = [AddPartitionsToTxnResult(asked.transactional_id, await self._transaction(asked))
                 for asked in request.transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=found)

    async def _transaction(self, asked: AddPartitionsToTxnTransaction) -> list[AddPartitionsToTxnTopicResult]:
        await trio.lowlevel.checkpoint()  # there may be many
        if refused := self._refused(asked.topics):
            return results(asked.topics, refused, ErrorCode.OPERATION_NOT_ATTEMPTED)
        who = asked.transactional_id, asked.producer_id, asked.producer_epoch, places(asked.topics)
        reply = await self.transactions.asked(
            VerifyPartitions(*who) if asked.verify_only else AddPartitions(*who, EPOCH_BUMP_VERSION)
        )
        if isinstance(reply, Verified):
            return results(asked.topics, dict.fromkeys(reply.refused, ErrorCode.TRANSACTION_ABORTABLE), ErrorCode.NONE)
        assert isinstance(reply, Decided)
        return results(asked.topics, {}, reply.error_code)

    def _refused(
        self, topics: list[AddPartitionsToTxnTopic], principal: str | None = None
    ) -> dict[TopicPartition, ErrorCode]:
        """What is not there, or not this client's to write to; None is a broker."""
        known, refused = self.image().topics, dict[TopicPartition, ErrorCode]()
        for topic, index in places(topics):
            if principal is not None and (
                is_internal(topic)
                or not self.authorizer.allows(principal, Operation.WRITE, ResourceType.TOPIC, topic)
            ):
                refused[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known.partition(topic, index) is None:
                refused[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused


def places(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    """The partitions that are named."""
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def results(topics: list[AddPartitionsToTxnTopic], refused: dict[TopicPartition, ErrorCode],
            others: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    """A result for each partition; `others` for those that are not `refused`."""
    return [
        AddPartitionsToTxnTopicResult(topic.name, [
            AddPartitionsToTxnPartitionResult(index, refused.get((topic.name, index), others))
            for index in topic.partitions
        ])
        for topic in topics
    ]  # fmt: skip
