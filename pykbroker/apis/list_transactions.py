"""ListTransactions (66), v0-2: the transactional ids that this broker coordinates (KIP-664).

v1 only transactions that have been open for longer than a duration (KIP-994)
v2 only ids that match a regular expression as a whole (KIP-1152)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pykbroker.coordinator.transactions import Transactions
from pykbroker.core.errors import ApiError
from pykbroker.core.name_pattern import matching
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.core.txn.state import TITLES
from pykbroker.core.txn.transaction import Transaction
from pykbroker.server.handler import Answer, Context
from wire.api import ApiKey
from wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


class ListTransactions(msgspec.Struct, frozen=True):
    """What the client may not see is left out."""

    key: ClassVar = ApiKey.LIST_TRANSACTIONS
    versions: ClassVar[str] = "0-2"
    transactions: Transactions
    wall_ms: Callable[[], int]
    authorizer: Authorizer

    def __call__(self, context: Context, request: ListTransactionsRequest) -> Answer:
        return self._list(context.principal, request)

    async def _list(self, principal: str, request: ListTransactionsRequest) -> ListTransactionsResponse:
        wanted = Wanted(request, self.wall_ms())
        response = ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in TITLES]
        )
        try:
            found = matched(request.transactional_id_pattern, await self.transactions.listed(wanted))
        except ApiError as error:
            return ListTransactionsResponse(error_code=error.code)
        response.transaction_states = [
            TransactionState(known.transactional_id, known.producer_id, known.state.title)
            for known in found
            if permitted(self.authorizer, principal, self.key, known.transactional_id)
        ]
        return response


def matched(pattern: str | None, found: list[Transaction]) -> list[Transaction]:
    """Those with such an id; an empty pattern is none. ApiError INVALID_REGULAR_EXPRESSION."""
    if not pattern:
        return found
    names = set(matching(pattern, [known.transactional_id for known in found]))
    return [known for known in found if known.transactional_id in names]


class Wanted:
    """Which transactions a request is about. Without one that is open the duration counts from 1970, as in Kafka."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self._any_state = not request.state_filters
        self._states = frozenset(TITLES[name] for name in request.state_filters if name in TITLES)
        self._producers = frozenset(request.producer_id_filters)
        self._begun_before_ms = now_ms - request.duration_filter if request.duration_filter >= 0 else None

    def __call__(self, known: Transaction) -> bool:
        return ((self._any_state or known.state in self._states)
                and (not self._producers or known.producer_id in self._producers)
                and (self._begun_before_ms is None or known.started_ms < self._begun_before_ms))
