"""Metadata records about the log itself."""

from typing import Annotated, ClassVar

from wire.declare import V
from wire.stored.framing import FramedRecord


class NoOpRecord(FramedRecord):
    """A record without content: it advances the high watermark, which shows that an idle leader is alive."""

    record_type: ClassVar = 20
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"


class BeginTransactionRecord(FramedRecord):
    """The begin of a metadata transaction.

    The records up to EndTransactionRecord apply completely or not at all (KIP-868).
    """

    record_type: ClassVar = 23
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    name: Annotated[str | None, V(nullable="0+", tag=0)] = None


class EndTransactionRecord(FramedRecord):
    """The end of the open metadata transaction, which is applied."""

    record_type: ClassVar = 24
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"


class AbortTransactionRecord(FramedRecord):
    """The abort of the open metadata transaction, which is dropped."""

    record_type: ClassVar = 25
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    reason: Annotated[str | None, V(nullable="0+", tag=0)] = None
