"""The messages of DescribeTransactions (API key 65), version 0, flexible."""

from wire.declare import Int16, Int32, Int64, Request, Response, Struct


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    transactional_ids: list[str] = []


class TopicData(Struct):
    topic: str = ""
    partitions: list[Int32] = []


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = []


class DescribeTransactionsResponse(Response):
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = []
