"""The rules for the records of a producer's batch, as the topic's configs set them."""

from __future__ import annotations

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from wire.error_codes import ErrorCode
from wire.records.record import validate_content
from wire.sentinels import NO_TIMESTAMP


class RecordRules(msgspec.Struct, gc=False, frozen=True):
    """The rules that records must follow. With `is_stamped`, the topic uses LogAppendTime, and any timestamp is valid.

    The other timestamps may be this much before and after the broker's time.
    """

    key_required: bool
    is_stamped: bool
    before_ms_max: int
    after_ms_max: int

    @classmethod
    def of(cls, config: LogConfig) -> RecordRules:
        """Return the rules of a topic with these configs."""
        return cls(
            config.compacted,
            config.log_append_time,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
        )

    def youngest(self, data: bytes, count: int, base_timestamp: int, now_ms: int, headers_max: int | None) -> int:
        """Validate `count` decompressed records. Return their largest timestamp, as a batch header has it.

        Raise INVALID_TIMESTAMP if a timestamp is out of its limits, and the errors of `validate_content`.
        """
        oldest, youngest = validate_content(data, count, base_timestamp, self.key_required, headers_max)
        if not self.is_stamped:
            before, after = self.before_ms_max, self.after_ms_max
            is_old = before != LONG_MAX and oldest != NO_TIMESTAMP and now_ms - oldest > before
            if is_old or youngest - now_ms > after:
                raise ApiError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"timestamps from {oldest} to {youngest}: more than {before} ms "
                    f"behind or {after} ms ahead of the broker's time {now_ms}",
                )
        return youngest if youngest > NO_TIMESTAMP else NO_TIMESTAMP
