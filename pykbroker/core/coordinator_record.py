"""What the logs of the coordinators hold: records about a key, and the ends of transactions.

Both kinds of coordinators decide in these terms; batches are made of them, and read back into them, by their shell.
"""

from __future__ import annotations

import msgspec

from wire.stored.framing import CoordinatorKey, CoordinatorValue

NO_PRODUCER = -1


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False):
    """The newest value of a key; None deletes it. `version` is the value's.

    With a producer it is part of that producer's transaction, and counts once the transaction is committed.
    """

    key: CoordinatorKey
    value: CoordinatorValue | None
    version: int = 0
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER


class TransactionMarker(msgspec.Struct, frozen=True, gc=False):
    """The end of a producer's transaction in this log: a control batch of its own."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int = 0
    transaction_version: int = 0


LogRecord = CoordinatorRecord | TransactionMarker
