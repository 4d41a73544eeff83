"""Records in the logs of coordinators: pairs of key and value, and transaction markers.

Similar records may be read back together as one run.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.log.producers import Marker
from wire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from wire.stored.framing import CoordinatorKey, CoordinatorValue, RecordRun


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False):
    """A key with its new value. If the value is None, the key is deleted.

    `version` is the version of the value's format.

    A record with a producer id belongs to that producer's transaction and takes effect when the transaction commits.
    """

    key: CoordinatorKey
    value: CoordinatorValue | None
    version: int = 0
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


LogRecord = CoordinatorRecord | Marker
StoredRecord = LogRecord | RecordRun
