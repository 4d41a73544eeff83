"""What the logs of the coordinators hold: records about a key, and the ends of transactions.

Both kinds of coordinators decide in these terms; batches are made of them, and read back into them, by their shell.
Records that are alike may be read back many at once, as a run.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.log.producers import Marker
from wire.stored.framing import CoordinatorKey, CoordinatorValue, RecordRun

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


LogRecord = CoordinatorRecord | Marker
StoredRecord = LogRecord | RecordRun
