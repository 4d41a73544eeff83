"""EndTxn (26), v0-5: commit or abort a transaction (KIP-98).

v2 PRODUCER_FENCED   v3 flexible   v4 TRANSACTION_ABORTABLE   v5 bumps the epoch and returns it (KIP-890)
The response is sent when the decision is committed; the markers are written afterwards.
"""

from __future__ import annotations

from pykbroker.coordinator.transactions import TransactionRequests, code_for_version
from pykbroker.core.security.rights import END_TXN, require
from pykbroker.core.txn.requests import EndTransaction, Reply
from pykbroker.core.txn.requests import TransactionAnswer as Decided
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_VERSION_FIRST, EPOCH_BUMP_VERSION_FIRST = 2, 5


class EndTxn(ApiHandler, frozen=True):
    """A handler that responds at once unless a record must be flushed first."""

    transactions: TransactionRequests

    def __call__(self, context: RequestContext, request: EndTxnRequest) -> Answer:
        require(context, END_TXN, request.transactional_id)
        client_version = EPOCH_BUMP_VERSION if context.version >= EPOCH_BUMP_VERSION_FIRST else 0

        def respond(reply: Reply) -> EndTxnResponse:
            assert isinstance(reply, Decided)
            code = code_for_version(reply.error_code, context.version, FENCED_VERSION_FIRST)
            return EndTxnResponse(error_code=code, producer_id=reply.producer_id, producer_epoch=reply.epoch)

        return now_or_later(
            self.transactions.ask(
                EndTransaction(
                    request.transactional_id,
                    request.producer_id,
                    request.producer_epoch,
                    request.committed,
                    client_version,
                ),
                respond,
            )
        )
