"""DescribeTransactions (65), v0: return the state of transactional ids from their coordinator (KIP-664)."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import trio

from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.security.rights import DESCRIBE_TRANSACTIONS_TOPIC, DESCRIBE_TRANSACTIONS_TRANSACTION, may
from pykbroker.core.steps import Steps, chosen
from pykbroker.core.txn.requests import FindTransaction, FoundTransactions
from pykbroker.core.txn.requests import TransactionAnswer as Refused
from pykbroker.core.txn.transaction import Transaction
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


class DescribeTransactions(ApiHandler, frozen=True):
    """A handler that describes each id separately, and leaves out topics that the client may not describe."""

    transactions: TransactionRequests

    def __call__(self, context: RequestContext, request: DescribeTransactionsRequest) -> Answer:
        return now_or_later(self._find(context, request))

    async def _find(self, context: RequestContext, request: DescribeTransactionsRequest) -> Answer:
        found = [await self._state(context, name) for name in request.transactional_ids]
        return now_or_later(self._without_hidden(context, found))

    async def _state(self, context: RequestContext, transactional_id: str) -> TransactionState:
        if not may(context, DESCRIBE_TRANSACTIONS_TRANSACTION, transactional_id):
            return TransactionState(DESCRIBE_TRANSACTIONS_TRANSACTION.code, transactional_id)
        await trio.lowlevel.checkpoint()  # a request may name many transactional ids
        reply = await self.transactions.send(FindTransaction(transactional_id))
        if isinstance(reply, Refused):
            return TransactionState(reply.error_code, transactional_id)
        assert isinstance(reply, FoundTransactions)
        return described(reply.transactions[0])

    def _without_hidden(self, context: RequestContext, found: list[TransactionState]) -> Steps[Answer]:
        """Return the response without the topics that the client may not describe."""
        for state in found:
            state.topics = yield from chosen(
                state.topics, lambda topic: may(context, DESCRIBE_TRANSACTIONS_TOPIC, topic.topic)
            )
        return DescribeTransactionsResponse(transaction_states=found)


def described(known: Transaction) -> TransactionState:
    """Return the state of a transaction."""
    topics = [
        TopicData(topic, [index for _, index in found])
        for topic, found in groupby(sorted(known.partitions), key=itemgetter(0))
    ]
    return TransactionState(
        ErrorCode.NONE,
        known.transactional_id,
        known.state.title,
        known.timeout_ms,
        known.started_ms,
        known.producer_id,
        known.epoch,
        topics,
    )
