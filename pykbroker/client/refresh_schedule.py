"""The times at which a client refreshes its metadata. It is pure: the time is an argument, in seconds of any clock."""

from __future__ import annotations

from math import inf

from pykbroker.client.backoff import Backoff


class RefreshSchedule:
    """The schedule of Metadata requests, as Kafka's clients have it.

    A refresh is due when it is requested, or `metadata.max.age.ms` after the previous success. It waits for
    `retry.backoff.ms` after the previous attempt, doubled at each failure and at each response without news, up to
    `retry.backoff.max.ms`. Only topics that are requested for the first time do not wait.
    """

    def __init__(self, attempt_backoff: Backoff, equivalent_backoff: Backoff, age_s_max: float) -> None:
        self._attempt_backoff, self._equivalent_backoff = attempt_backoff, equivalent_backoff
        self._age_s_max = age_s_max
        self.full_requested, self.new_topics_requested = True, False
        self._succeeded_at = self._attempted_at = -inf
        self._attempt_delay_s = self._equivalent_delay_s = 0.0

    def request_full(self) -> None:
        """Make a refresh of all topics of interest due."""
        self.full_requested = True

    def request_new_topics(self) -> None:
        """Make a refresh of the new topics due, without a backoff."""
        self.new_topics_requested = True
        self._attempted_at = -inf
        self._forget_equivalent()

    def is_full(self, now: float) -> bool:
        """Whether the next refresh must request all topics of interest, not only the new topics."""
        return self.full_requested or now >= self._succeeded_at + self._age_s_max

    def due_at(self, now: float) -> float:
        """Return the time of the next refresh. It is in the past if the refresh is due."""
        expires_at = self._succeeded_at + self._age_s_max
        if expires_at <= now:
            self._forget_equivalent()
        requested_at = now if self.full_requested or self.new_topics_requested else expires_at
        return max(requested_at, self._attempted_at + max(self._attempt_delay_s, self._equivalent_delay_s))

    def succeeded(self, now: float, *, full: bool, has_news: bool) -> None:
        """Record a Metadata response. `has_news` is False if it only repeats what is known.

        Requests for a refresh that are made while the response is evaluated must follow this call.
        """
        self._attempted_at = now
        self._attempt_backoff.succeeded()
        self._attempt_delay_s = self._attempt_backoff.failed()
        self._attempt_backoff.succeeded()
        if full:
            self.full_requested, self._succeeded_at = False, now
        self.new_topics_requested = False
        if has_news:
            self._forget_equivalent()
        else:
            self._equivalent_delay_s = self._equivalent_backoff.failed()

    def failed(self, now: float) -> None:
        """Record a Metadata request that failed."""
        self._attempted_at = now
        self._attempt_delay_s = self._attempt_backoff.failed()
        self._forget_equivalent()

    def _forget_equivalent(self) -> None:
        self._equivalent_backoff.succeeded()
        self._equivalent_delay_s = 0.0
