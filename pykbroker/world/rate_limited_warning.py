"""Rate-limited warnings, for events that peers could use to flood the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

SILENT_S = 60
NS_PER_S = 1_000_000_000
KINDS_MAX = 1000
"""The maximum number of kinds of warnings that are remembered. All further kinds share one rate limit."""


class RateLimitedWarning:
    """A logger for one kind of warning, which logs it at most once in `SILENT_S`.

    The next line has the number of warnings left out.
    """

    def __init__(self, logger: logging.Logger, ticks: Callable[[], int]) -> None:
        self._logger, self._ticks = logger, ticks
        self._silent_until: int | None = None
        self._left_out = 0

    @property
    def is_silent(self) -> bool:
        """Whether a warning was logged less than `SILENT_S` ago."""
        return self._silent_until is not None and self._ticks() < self._silent_until

    def warn(self, message: str, *args: object) -> None:
        """Log a warning, or count it if another was logged less than `SILENT_S` ago."""
        if self.is_silent:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._logger.warning("%s%s", message % args, more)
        self._silent_until, self._left_out = self._ticks() + SILENT_S * NS_PER_S, 0


class RateLimitedWarnings:
    """A logger for warnings of many kinds, with a `RateLimitedWarning` for each.

    The first `peer_parts` parts of a kind name a peer, of which at most `kinds_of_peer_max` kinds are remembered.
    """

    def __init__(
        self,
        logger: logging.Logger,
        ticks: Callable[[], int],
        *,
        peer_parts: int = 0,
        kinds_of_peer_max: int = KINDS_MAX,
    ) -> None:
        self._logger, self._ticks = logger, ticks
        self._peer_parts, self._kinds_of_peer_max = peer_parts, kinds_of_peer_max
        self._of_kinds: dict[tuple[str, ...], RateLimitedWarning] = {}
        self._of_peers: Counter[tuple[str, ...]] = Counter()
        self._full_until = 0

    def warn(self, kind: tuple[str, ...], message: str, *args: object) -> None:
        """Log a warning, or count it if another of its kind was logged less than `SILENT_S` ago.

        A kind that is one too many is counted as its last part, which is one of a few texts. One that is too many only
        for its peer is counted as the peer and that part.
        """
        if kind not in self._of_kinds:
            kind = self._remembered(kind)
        if kind not in self._of_kinds:
            self._of_kinds[kind] = RateLimitedWarning(self._logger, self._ticks)
            self._of_peers[kind[: self._peer_parts]] += 1
        self._of_kinds[kind].warn(message, *args)

    def _remembered(self, kind: tuple[str, ...]) -> tuple[str, ...]:
        """Return the kind as which a new one is counted."""
        peer = kind[: self._peer_parts]
        if self._is_full() or self._is_full_for(peer):
            self._make_room()
        if self._is_full():
            return kind[-1:]
        return (*peer, kind[-1]) if self._is_full_for(peer) else kind

    def _is_full(self) -> bool:
        return len(self._of_kinds) >= KINDS_MAX

    def _is_full_for(self, peer: tuple[str, ...]) -> bool:
        return self._of_peers[peer] >= self._kinds_of_peer_max

    def _make_room(self) -> None:
        """Forget the kinds without a recent warning, at most once in `SILENT_S`."""
        if self._ticks() >= self._full_until:
            self._of_kinds = {kind: warning for kind, warning in self._of_kinds.items() if warning.is_silent}
            self._of_peers = Counter(kind[: self._peer_parts] for kind in self._of_kinds)
            self._full_until = self._ticks() + SILENT_S * NS_PER_S
