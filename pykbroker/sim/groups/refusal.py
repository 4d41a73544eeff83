"""The classification of a coordinator's errors: the member was removed, the broker cannot serve now, or a bug."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.sim.client import TEMPORARY, Again
from pykbroker.sim.groups.history import GroupHistory
from wire.error_codes import ErrorCode

EVICTED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)


class Evicted(Exception):
    """An error after which a member must join again. If `forgotten` is true, it joins with another member id."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.forgotten = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        self.code = code


def require(codes: Iterable[ErrorCode], history: GroupHistory, who: str) -> None:
    """Check the error codes of a response.

    Raise Evicted or Again for an expected error, and record any other error in the history.
    """
    for code in codes:
        if code in EVICTED:
            raise Evicted(code)
        if code:
            if code not in TEMPORARY:
                history.unexpected.append(f"{who} got {code.name}")
            raise Again(code.name)
