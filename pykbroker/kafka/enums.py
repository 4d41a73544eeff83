"""The enumerations of kafka-python: isolation levels, and the offsets that have a name."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Self


class NamedValue(IntEnum):
    """A number of the protocol that users may give by its name, in any case and with hyphens."""

    @classmethod
    def build_from(cls, val: Any) -> Self:
        """Return the member with this number or name. Raise ValueError if the enum has no such member."""
        name = str(val).strip().upper().replace("-", "_")
        if name in cls.__members__:
            return cls[name]
        try:
            return cls(val)
        except ValueError:
            raise ValueError(
                f"Unrecognized {cls.__name__}: {val}. Pass one of {', '.join(cls.__members__)}, or its number"
            ) from None

    @classmethod
    def value_for(cls, val: Any) -> int:
        """Return the number of a member by its number or name. Raise ValueError if the enum has no such member."""
        return cls.build_from(val).value


class IsolationLevel(NamedValue):
    """Whether a consumer reads records of transactions that are not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(NamedValue):
    """The timestamps of ListOffsets that stand for an offset.

    `LATEST` is the offset after the last record, and `EARLIEST` that of the first one. `MAX_TIMESTAMP` is the offset of
    the record with the largest timestamp (KIP-734). `EARLIEST_LOCAL` is the first offset on the leader's own disk
    (KIP-405), and `LATEST_TIERED` the last one in remote storage (KIP-1005).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
