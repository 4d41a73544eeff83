"""The configs of one answer of DescribeConfigs: what is alike is made once, and all of it has a bound."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from pykbroker.core.config.entries import ConfigEntry
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsSynonym

FIXED_BYTES = 12
"""Of a config or a synonym, beside its texts; a little more in some versions."""


class ConfigSheet:
    """Texts of up to `bytes_left` stand on it, counted as often as they are answered."""

    def __init__(self, request: DescribeConfigsRequest, bytes_max: int) -> None:
        self._request = request
        self._made: dict[Hashable, tuple[list[DescribeConfigsResourceResult], int]] = {}
        self.bytes_left = bytes_max

    def configs(
        self, alike: Hashable, keys: Iterable[str], entries: Iterable[ConfigEntry]
    ) -> list[DescribeConfigsResourceResult]:
        """Those of the entries that are asked for, all without keys. What is equal in `alike` has the same entries.

        ApiError POLICY_VIOLATION: no room is left.
        """
        wanted = frozenset(keys)
        made = self._made.get((alike, wanted))
        if made is None:
            configs = [described(entry, self._request) for entry in entries if not wanted or entry.name in wanted]
            made = self._made[alike, wanted] = configs, sum(map(size, configs))
        self.bytes_left -= made[1]
        if self.bytes_left < 0:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        return made[0]


def described(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One line, with what else was asked for."""
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else [],
        entry.type,
        told(entry.name) if request.include_documentation else None,
    )


def told(name: str) -> str:
    """What a config means."""
    from pykbroker.core.config.docs import documentation

    return documentation(name)


def size(config: DescribeConfigsResourceResult) -> int:
    """Of one line in an answer, in bytes, for texts in ASCII."""
    own = FIXED_BYTES + len(config.name) + len(config.value or "") + len(config.documentation or "")
    return own + sum(FIXED_BYTES + len(one.name) + len(one.value or "") for one in config.synonyms)
