"""InitProducerId (22), v0-5: allocate a producer id, or bump the producer epoch of a transactional id.

v2 flexible   v3 current producer id and epoch (KIP-360)   v4 PRODUCER_FENCED   v5 TRANSACTION_ABORTABLE (KIP-890)
Without a transactional id, WRITE on any topic is sufficient authorization (KIP-679).
As in Kafka, v6 (KIP-939) is not advertised.
"""

from __future__ import annotations

from pykbroker.coordinator.transactions import TransactionRequests, code_for_version
from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import CLUSTER_NAME
from pykbroker.core.security.rights import INIT_PRODUCER_ID_IDEMPOTENT, INIT_PRODUCER_ID_TRANSACTION, require
from pykbroker.core.txn.requests import InitProducer, Reply
from pykbroker.core.txn.requests import TransactionAnswer as Given
from pykbroker.quorum.producer_ids import ProducerIds
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

FENCED_VERSION_FIRST = 4


class InitProducerId(ApiHandler, frozen=True):
    """A handler that responds at once unless the block of producer ids is used up or a record must be flushed first."""

    producer_ids: ProducerIds
    transactions: TransactionRequests

    def __call__(self, context: RequestContext, request: InitProducerIdRequest) -> Answer:
        transactional_id = request.transactional_id
        right = INIT_PRODUCER_ID_IDEMPOTENT if transactional_id is None else INIT_PRODUCER_ID_TRANSACTION
        require(context, right, CLUSTER_NAME if transactional_id is None else transactional_id)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if transactional_id is not None:
            return self._of_transactional_id(context.version, request, transactional_id)
        producer_id = self.producer_ids.next_nowait()
        if producer_id is None:
            return now_or_later(self._wait())
        return InitProducerIdResponse(producer_id=producer_id)

    def _of_transactional_id(self, version: int, request: InitProducerIdRequest, transactional_id: str) -> Answer:
        def respond(reply: Reply) -> InitProducerIdResponse:
            assert isinstance(reply, Given)
            code = code_for_version(reply.error_code, version, FENCED_VERSION_FIRST)
            return InitProducerIdResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.epoch)

        return now_or_later(
            self.transactions.ask(
                InitProducer(
                    transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
                ),
                respond,
            )
        )

    async def _wait(self) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=await self.producer_ids.next())
