"""AddOffsetsToTxn (25), v0-4: add a group's offsets partition to a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE (KIP-890)
The added partition is the group's partition of `__consumer_offsets`, even if that topic does not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pykbroker.coordinator.transactions import TransactionRequests, code_for_version
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.permissions import permitted
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import AddPartitions, Reply
from pykbroker.core.txn.requests import TransactionAnswer as Decided
from pykbroker.server.handler import Answer, Handler, RequestContext, now_or_later
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION_FIRST = 2


class AddOffsetsToTxn(Handler, msgspec.Struct, frozen=True):
    """A handler that responds at once unless a record must be flushed first.

    `partition_of` maps a group to its partition of `__consumer_offsets`.
    """

    key: ClassVar = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar[str] = "0-4"
    transactions: TransactionRequests
    partition_of: Callable[[str], int]
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: AddOffsetsToTxnRequest) -> Answer:
        if not permitted(self.authorizer, context.session, self.key, request.transactional_id):
            return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not self.authorizer.allows(context.session, Operation.READ, ResourceType.GROUP, request.group_id):
            return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

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
