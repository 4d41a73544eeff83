"""Records of `__transaction_state`: one key for each transactional id.

TransactionLogValue has versions 0-1, flexible from version 1:
- Version 1 is flexible and adds `previous_producer_id`, `next_producer_id`, `next_producer_epoch`, and
  `client_transaction_version`.
"""

from typing import Annotated, ClassVar

from wire.declare import Int8, Int16, Int32, Int64, StoredPart, V
from wire.stored.framing import Catalogue, CoordinatorKey, CoordinatorValue


class TransactionLogKey(CoordinatorKey):
    """The key of a record about a transactional id."""

    record_type: ClassVar = 0

    transactional_id: Annotated[str, V("0")] = ""


class PartitionsSchema(StoredPart):
    topic: str = ""
    partition_ids: list[Int32] = []


class TransactionLogValue(CoordinatorValue):
    """A record value: the producer of the transactional id, and the state of its transaction."""

    record_type: ClassVar = 0
    versions: ClassVar = "0-1"
    flexible: ClassVar = "1+"

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, V("1+", tag=0)] = -1
    next_producer_id: Annotated[Int64, V("1+", tag=1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, V("1+", tag=3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Annotated[list[PartitionsSchema] | None, V(nullable="0+")] = []
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, V("1+", tag=2)] = 0


TRANSACTION_RECORDS: Catalogue = {0: (TransactionLogKey, TransactionLogValue)}
"""The classes of key and value by record type."""
