"""The producer state of a log at an offset."""

from typing import Annotated, ClassVar

from wire.declare import Int16, Int32, Int64, Stored, StoredPart, UInt32, V


class ProducerEntry(StoredPart):
    producer_id: Annotated[Int64, V("1")] = 0
    epoch: Annotated[Int16, V("1")] = 0
    last_sequence: Annotated[Int32, V("1")] = 0
    last_offset: Annotated[Int64, V("1")] = 0
    offset_delta: Annotated[Int32, V("1")] = 0
    timestamp: Annotated[Int64, V("1")] = 0
    coordinator_epoch: Annotated[Int32, V("1")] = 0
    current_txn_first_offset: Annotated[Int64, V("1")] = 0


class ProducerSnapshot(Stored):
    """The content of a `.snapshot` file after its version."""

    versions: ClassVar = "1"
    flexible: ClassVar = "none"

    crc: Annotated[UInt32, V("1")] = 0
    producer_entries: Annotated[list[ProducerEntry], V("1")] = []
