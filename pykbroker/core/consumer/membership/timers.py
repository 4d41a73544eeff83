"""The timers of a member: the next heartbeat, the session with the coordinator, and the interval between polls."""

from __future__ import annotations

from pykbroker.core.backoff import Uniform, delay_ms
from pykbroker.core.consumer.membership.steps import MemberSettings


class MemberTimers:
    """The times of a member, in ms. `retry_at_ms` is the time until which a failed request is not repeated."""

    def __init__(self, settings: MemberSettings, uniform: Uniform, now_ms: float) -> None:
        self._settings, self._uniform, self._failures = settings, uniform, 0
        self.interval_ms = settings.heartbeat_interval_ms
        self.retry_at_ms = now_ms
        self.restart(now_ms)

    def restart(self, now_ms: float) -> None:
        """Begin a session."""
        self.heartbeat_at_ms = now_ms + self.interval_ms
        self.session_ends_ms = now_ms + self._settings.session_timeout_ms
        self.polled(now_ms)

    def polled(self, now_ms: float) -> None:
        """Begin the interval until the next poll."""
        self.poll_by_ms = now_ms + self._settings.poll_interval_ms_max

    def sent(self, now_ms: float) -> None:
        """Note that a heartbeat is sent."""
        self.heartbeat_at_ms = now_ms + self.interval_ms

    def succeeded(self, now_ms: float) -> None:
        """Note a heartbeat that the coordinator accepted."""
        self._failures = 0
        self.retry_at_ms = now_ms
        self.session_ends_ms = now_ms + self._settings.session_timeout_ms

    def failed(self, now_ms: float) -> None:
        """Repeat a heartbeat or a join after the backoff."""
        settings = self._settings
        backoff = delay_ms(self._failures, settings.retry_backoff_ms, settings.retry_backoff_ms_max, self._uniform)
        self._failures += 1
        self.retry_at_ms = self.heartbeat_at_ms = now_ms + backoff
