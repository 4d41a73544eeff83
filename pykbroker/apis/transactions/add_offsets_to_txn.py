"""AddOffsetsToTxn (25), v0-4: add a group's offsets partition to a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE (KIP-890)
The added partition is the group's partition of `__consumer_offsets`, even if that topic does not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.coordinator.transactions import TransactionRequests, code_for_version
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.security.rights import ADD_OFFSETS_TO_TXN_GROUP, ADD_OFFSETS_TO_TXN_TRANSACTION, require
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import AddPartitions, Reply
from pykbroker.core.txn.requests import TransactionAnswer as Decided
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION_FIRST = 2


class AddOffsetsToTxn(ApiHandler, frozen=True):
    """A handler that responds at once unless a record must be flushed first.

    `partition_of` maps a group to its partition of `__consumer_offsets`.
    """

    transactions: TransactionRequests
    partition_of: Callable[[str], int]

    def __call__(self, context: RequestContext, request: AddOffsetsToTxnRequest) -> Answer:
        require(context, ADD_OFFSETS_TO_TXN_TRANSACTION, request.transactional_id)
        require(context, ADD_OFFSETS_TO_TXN_GROUP, request.group_id)

        def respond(reply: Reply) -> AddOffsetsToTxnResponse:
            assert isinstance(reply, Decided)
            return AddOffsetsToTxnResponse(
                error_code=code_for_version(reply.error_code, context.version, FENCED_VERSION_FIRST)
            )

        place = TopicPartition(GROUP_METADATA_TOPIC, self.partition_of(request.group_id))
        return now_or_later(
            self.transactions.ask(
                AddPartitions(
                    request.transactional_id, request.producer_id, request.producer_epoch, frozenset({place})
                ),
                respond,
            )
        )
