"""ListTransactions (66), v0-2: list the transactional ids that this broker coordinates (KIP-664).

v1 only transactions that have been open for longer than a duration (KIP-994)
v2 only ids that match a regular expression as a whole (KIP-1152)
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.name_pattern import NamePattern, compiled
from pykbroker.core.security.rights import LIST_TRANSACTIONS_TRANSACTION, may
from pykbroker.core.steps import Steps
from pykbroker.core.txn.state import TITLES
from pykbroker.core.txn.transaction import Transaction
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from pykbroker.world.off_loop import OffLoop
from wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


class ListTransactions(ApiHandler, frozen=True):
    """A handler that leaves out transactional ids that the client may not describe.

    Ids are matched in a thread, a few at a time, so that concurrent requests share the thread. An id may be 32 KB long,
    and RE2 needs up to a second to match it with the most expensive patterns.
    """

    transactions: TransactionRequests
    wall_ms: Callable[[], int]
    off_loop: OffLoop
    turn: trio.Lock = msgspec.field(default_factory=trio.Lock)

    def __call__(self, context: RequestContext, request: ListTransactionsRequest) -> Answer:
        return now_or_later(self._list(context, request))

    async def _list(self, context: RequestContext, request: ListTransactionsRequest) -> Answer:
        wanted = TransactionFilter(request, self.wall_ms())
        found = await self.transactions.listed(wanted)
        if request.transactional_id_pattern:
            found = await self._matching(compiled(request.transactional_id_pattern), found)
        return now_or_later(self._described(context, request, found))

    async def _matching(self, pattern: NamePattern, found: list[Transaction]) -> list[Transaction]:
        """Return the transactions whose ids match the pattern, in the given order."""
        by_id = {known.transactional_id: known for known in found}
        names: list[str] = []
        for share in pattern.shares(by_id):
            async with self.turn:
                names += await self.off_loop(pattern.matching, share)
        return [by_id[name] for name in names]

    def _described(
        self, context: RequestContext, request: ListTransactionsRequest, found: list[Transaction]
    ) -> Steps[Answer]:
        response = ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in TITLES]
        )
        for known in found:
            if may(context, LIST_TRANSACTIONS_TRANSACTION, known.transactional_id):
                response.transaction_states.append(
                    TransactionState(known.transactional_id, known.producer_id, known.state.title)
                )
            yield
        return response


class TransactionFilter:
    """The filter of a request. As in Kafka, an id without an open transaction counts as open since 1970."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self._any_state = not request.state_filters
        self._states = frozenset(TITLES[name] for name in request.state_filters if name in TITLES)
        self._producers = frozenset(request.producer_id_filters)
        self._begun_before_ms = now_ms - request.duration_filter if request.duration_filter >= 0 else None

    def __call__(self, known: Transaction) -> bool:
        return (
            (self._any_state or known.state in self._states)
            and (not self._producers or known.producer_id in self._producers)
            and (self._begun_before_ms is None or known.started_ms < self._begun_before_ms)
        )
