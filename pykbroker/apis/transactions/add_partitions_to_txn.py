"""AddPartitionsToTxn (24), v0-5: add partitions to a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 several transactions, from brokers; partitions are added or verified (KIP-890)
v5 TRANSACTION_ABORTABLE

If one partition cannot be added, none is: the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TypeVar

import trio

from pykbroker.coordinator.transactions import TransactionRequests, code_for_version
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import is_internal
from pykbroker.core.security.rights import (
    ADD_PARTITIONS_TO_TXN_BROKER,
    ADD_PARTITIONS_TO_TXN_TOPIC,
    ADD_PARTITIONS_TO_TXN_TRANSACTION,
    may,
    require,
)
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import AddPartitions, Reply, Verified, VerifyPartitions
from pykbroker.core.txn.requests import TransactionAnswer as Decided
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

T = TypeVar("T")

FENCED_VERSION_FIRST, BROKERS_VERSION_FIRST = 2, 4


class AddPartitionsToTxn(ApiHandler, frozen=True):
    """A handler that answers a client at once unless a record must be flushed first."""

    transactions: TransactionRequests
    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
        if context.version >= BROKERS_VERSION_FIRST:
            require(context, ADD_PARTITIONS_TO_TXN_BROKER)
            return now_or_later(self._of_broker(request))
        return now_or_later(self._of_client(context, request))

    def _of_client(self, context: RequestContext, request: AddPartitionsToTxnRequest) -> Steps[Answer]:
        topics, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id

        def respond(reply: Reply) -> Later:
            assert isinstance(reply, Decided)
            return Later(
                response_of(topics, {}, code_for_version(reply.error_code, context.version, FENCED_VERSION_FIRST)),
                holds_connection=True,
            )

        require(context, ADD_PARTITIONS_TO_TXN_TRANSACTION, transactional_id)
        if refused := (yield from self._refused(topics, context)):
            return (yield from response_of(topics, refused, ErrorCode.OPERATION_NOT_ATTEMPTED))
        asked = self.transactions.ask(
            AddPartitions(
                transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                (yield from places(topics)),
            ),
            respond,
        )
        return now_or_later(asked)

    async def _of_broker(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        found = [AddPartitionsToTxnResult(asked.transactional_id) for asked in request.transactions]
        waiting, decisions = [], []
        for asked, result in zip(request.transactions, found, strict=True):
            await trio.lowlevel.checkpoint()  # a request may contain many transactions
            if refused := await run_steps(self._refused(asked.topics)):
                result.topic_results = await run_steps(
                    results(asked.topics, refused, ErrorCode.OPERATION_NOT_ATTEMPTED)
                )
                continue
            who = asked.transactional_id, asked.producer_id, asked.producer_epoch, await run_steps(places(asked.topics))
            waiting.append((asked.topics, result))
            decisions.append(VerifyPartitions(*who) if asked.verify_only else AddPartitions(*who, EPOCH_BUMP_VERSION))
        replies = await self.transactions.send_all(decisions)
        for (topics, result), reply in zip(waiting, replies, strict=True):
            result.topic_results = await run_steps(decided(topics, reply))
        return AddPartitionsToTxnResponse(results_by_transaction=found)

    def _refused(
        self, topics: list[AddPartitionsToTxnTopic], client: RequestContext | None = None
    ) -> Generator[None, None, dict[TopicPartition, ErrorCode]]:
        """Return an error for each partition that does not exist or that the client may not write to.

        For a broker's request `client` is None, and topics are not authorized.
        """
        known, refused = self.image().topics.by_name, dict[TopicPartition, ErrorCode]()
        for topic in topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            there: Collection[int] = ()
            if client is not None and (
                is_internal(topic.name) or not may(client, ADD_PARTITIONS_TO_TXN_TOPIC, topic.name)
            ):
                code = ADD_PARTITIONS_TO_TXN_TOPIC.code
            elif topic.name in known:
                there = known[topic.name].partitions.keys()
            for few in portions(topic.partitions):
                refused.update((TopicPartition(topic.name, index), code) for index in few if index not in there)
                yield
        return refused


def places(topics: list[AddPartitionsToTxnTopic]) -> Generator[None, None, frozenset[TopicPartition]]:
    """Return the partitions of all topics."""
    found = set[TopicPartition]()
    for topic in topics:
        for few in portions(topic.partitions):
            found.update(TopicPartition(topic.name, index) for index in few)
            yield
    return frozenset(found)


def response_of(
    topics: list[AddPartitionsToTxnTopic], refused: dict[TopicPartition, ErrorCode], others: ErrorCode
) -> Generator[None, None, AddPartitionsToTxnResponse]:
    """Return the response to a client, in versions 0-3."""
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(yield from results(topics, refused, others)))


def results(
    topics: list[AddPartitionsToTxnTopic], refused: dict[TopicPartition, ErrorCode], others: ErrorCode
) -> Generator[None, None, list[AddPartitionsToTxnTopicResult]]:
    """Return a result for each partition: its error in `refused`, or else `others`."""
    found = []
    for topic in topics:
        answer = AddPartitionsToTxnTopicResult(topic.name, [])
        for few in portions(topic.partitions):
            answer.results_by_partition += [
                AddPartitionsToTxnPartitionResult(index, refused.get(TopicPartition(topic.name, index), others))
                for index in few
            ]
            yield
        found.append(answer)
        yield
    return found


def decided(
    topics: list[AddPartitionsToTxnTopic], reply: Reply
) -> Generator[None, None, list[AddPartitionsToTxnTopicResult]]:
    """Return the results for the partitions of a transaction, after the coordinator's reply about it."""
    if isinstance(reply, Verified):
        return results(topics, dict.fromkeys(reply.refused, ErrorCode.TRANSACTION_ABORTABLE), ErrorCode.NONE)
    assert isinstance(reply, Decided)
    return results(topics, {}, reply.error_code)


async def run_steps(steps: Generator[None, None, T]) -> T:
    """Run the steps to the end, yielding to other tasks after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()
