"""The configs of one DescribeConfigs response: equal results are built once, and the response size is bounded."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from pykbroker.core.config.entries import ConfigEntry
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsSynonym

FIXED_BYTES = 12
"""The bytes of a config or synonym in addition to its texts. Some versions need a little more."""


class ConfigSheet:
    """A builder of results for at most `bytes_left` bytes. A repeated result counts each time."""

    def __init__(self, request: DescribeConfigsRequest, bytes_max: int) -> None:
        self._request = request
        self._built: dict[Hashable, tuple[list[DescribeConfigsResourceResult], int]] = {}
        self.bytes_left = bytes_max

    def configs(
        self, key: Hashable, keys: Iterable[str], entries: Iterable[ConfigEntry]
    ) -> list[DescribeConfigsResourceResult]:
        """Return the entries named in `keys`, or all if there are no keys. Resources with equal `key` share one result.

        Raise ApiError POLICY_VIOLATION if the response would be too large.
        """
        names = frozenset(keys)
        built = self._built.get((key, names))
        if built is None:
            configs = [described(entry, self._request) for entry in entries if not names or entry.name in names]
            built = self._built[key, names] = configs, sum(map(size, configs))
        self.bytes_left -= built[1]
        if self.bytes_left < 0:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        return built[0]


def described(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """Return the result of one config, with the synonyms and the description that the request asks for."""
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else [],
        entry.type,
        documented(entry.name) if request.include_documentation else None,
    )


def documented(name: str) -> str:
    """Return the description of a config."""
    from pykbroker.core.config.docs import documentation

    return documentation(name)


def size(config: DescribeConfigsResourceResult) -> int:
    """Return the size of one result in a response, in bytes. Texts are assumed to be ASCII."""
    own = FIXED_BYTES + len(config.name) + len(config.value or "") + len(config.documentation or "")
    return own + sum(FIXED_BYTES + len(one.name) + len(one.value or "") for one in config.synonyms)
