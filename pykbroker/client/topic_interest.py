"""The topics whose metadata a client needs. It is pure: the time is an argument, in seconds of any one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf


class TopicInterest:
    """The topics that a client uses: some until they are idle, some until they are replaced, and all that match.

    A producer uses topics until they are idle for `metadata.max.idle.ms`. A consumer replaces its topics, or matches
    all topics of the cluster with a pattern.
    """

    def __init__(self, idle_s_max: float = inf) -> None:
        self._idle_s_max = idle_s_max
        self._expires_at: dict[str, float] = {}
        self._matches: Callable[[str, bool], bool] | None = None
        self.new: set[str] = set()
        """The topics whose metadata was never requested."""
        self.ids: set[bytes] = set()
        """The ids of topics that the client uses by id, as in an assignment of the consumer protocol (KIP-848)."""

    @property
    def names(self) -> set[str]:
        return set(self._expires_at)

    @property
    def needs_all(self) -> bool:
        """Whether the metadata of all topics of the cluster is needed, since a pattern selects from them."""
        return self._matches is not None

    def use(self, topic: str, now: float) -> bool:
        """Add a topic until it is idle, or extend that time. Return whether the topic is new."""
        is_new = topic not in self._expires_at
        self._expires_at[topic] = now + self._idle_s_max
        if is_new:
            self.new.add(topic)
        return is_new

    def replace(self, topics: Iterable[str]) -> bool:
        """Replace all topics by these, which never become idle. Return whether one of them is new."""
        topics = set(topics)
        added = topics - self._expires_at.keys()
        self.new = (self.new & topics) | added
        self._expires_at = dict.fromkeys(topics, inf)
        return bool(added)

    def match(self, matches: Callable[[str, bool], bool] | None) -> None:
        """Also use all topics for which `matches` returns True, or stop if it is None.

        `matches` gets the name of a topic, and whether the topic is internal.
        """
        self._matches = matches

    def described(self, topics: Iterable[str | None]) -> None:
        """Record that a response described these topics, so that they are no longer new."""
        self.new.difference_update(topic for topic in topics if topic is not None)

    def retains(self, topic: str, topic_id: bytes, internal: bool, now: float) -> bool:
        """Whether the client still uses a topic. A topic that is idle is removed."""
        expires_at = self._expires_at.get(topic)
        if expires_at is not None:
            if expires_at > now or topic in self.new:
                return True
            del self._expires_at[topic]
        return topic_id in self.ids or (self._matches is not None and self._matches(topic, internal))
