"""The messages of ListTransactions (API key 66), versions 0-2, all flexible.

- Version 1 adds `duration_filter` to the request.
- Version 2 adds `transactional_id_pattern` to the request.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, Struct, V


class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    state_filters: list[str] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, V("1+")] = -1
    transactional_id_pattern: Annotated[str | None, V("2+", nullable="2+")] = None


class TransactionState(Struct):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []
