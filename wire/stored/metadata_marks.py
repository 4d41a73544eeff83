"""Metadata records about the log itself."""

from typing import Annotated, ClassVar

from wire.declare import V
from wire.stored.framing import FramedRecord


class NoOpRecord(FramedRecord):
    """A record without content. It advances the high watermark, which shows that an idle leader is alive."""

    record_type: ClassVar = 20


class BeginTransactionRecord(FramedRecord):
    """The start of a metadata transaction.

    The records up to EndTransactionRecord are applied completely or not at all (KIP-868).
    """

    record_type: ClassVar = 23

    name: Annotated[str | None, V(nullable="0+", tag=0)] = None


class EndTransactionRecord(FramedRecord):
    """The commit of the open metadata transaction, whose records are then applied."""

    record_type: ClassVar = 24


class AbortTransactionRecord(FramedRecord):
    """The abort of the open metadata transaction, whose records are then dropped."""

    record_type: ClassVar = 25

    reason: Annotated[str | None, V(nullable="0+", tag=0)] = None
