"""InitProducerId (22), v0-5: a producer id for an idempotent producer, and an epoch of it for a transactional id.

v2 flexible   v3 producer id and epoch of before (KIP-360)   v4 PRODUCER_FENCED   v5 TRANSACTION_ABORTABLE (KIP-890)
Without a transactional id, whoever may write to some topic may have one (KIP-679).
v6 (KIP-939) is not advertised, as in Kafka.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.coordinator.transactions import TransactionRequests, spoken
from pykbroker.core.security.authorizer import CLUSTER_NAME, Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.txn.requests import InitProducer, Reply
from pykbroker.core.txn.requests import TransactionAnswer as Given
from pykbroker.quorum.producer_ids import ProducerIds
from pykbroker.server.handler import Answer, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1
FENCED_VERSION_FIRST = 4


class InitProducerId(msgspec.Struct, frozen=True):
    """Plain while the block of ids in hand lasts, and nothing has to be flushed."""

    key: ClassVar = ApiKey.INIT_PRODUCER_ID
    versions: ClassVar[str] = "0-5"
    producer_ids: ProducerIds
    transactions: TransactionRequests
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: InitProducerIdRequest) -> Answer:
        refusal = self._refusal(context.principal, request.transactional_id)
        if refusal is not None:
            return self.refuse(request, refusal)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return self.refuse(request, ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            return self._of_transactional_id(context.version, request, request.transactional_id)
        producer_id = self.producer_ids.next_nowait()
        if producer_id is None:
            return self._wait()
        return InitProducerIdResponse(producer_id=producer_id)

    def refuse(self, request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        """An error, and no producer."""
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)

    def _of_transactional_id(self, version: int, request: InitProducerIdRequest, transactional_id: str) -> Answer:
        def respond(reply: Reply) -> InitProducerIdResponse:
            assert isinstance(reply, Given)
            code = spoken(reply.error_code, version, FENCED_VERSION_FIRST)
            return InitProducerIdResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.epoch)

        return self.transactions.ask(
            InitProducer(transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch),
            respond,
        )

    def _refusal(self, principal: str, transactional_id: str | None) -> ErrorCode | None:
        """Why this client may not have what it asks for."""
        may = self.authorizer
        if transactional_id is not None:
            allowed = may.allows(principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
            return None if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if may.allows(principal, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
            return None
        allowed = may.allows_somewhere(principal, Operation.WRITE, ResourceType.TOPIC)
        return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def _wait(self) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=await self.producer_ids.next())
