"""The sessions of brokers: when each was last heard of, and which part of the metadata log it has applied.

Sessions are soft state, which no record contains and a new controller begins afresh. The broker in the controller's own
process has no session: it ends with the controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

import msgspec

from pykbroker.core.metadata.image import BrokerImage

CHECKS_PER_SESSION = 8
"""The number of checks of all sessions within a session timeout."""
UNHEARD_MS = 1000
"""The time in which a broker that runs connects to a controller that has become active."""


class BrokerSession(msgspec.Struct):
    """The session of one registration of a broker.

    `heard` says that this controller has heard of it, `disconnected` that its connection has ended, and `shut_down`
    that it was told to shut down.
    """

    epoch: int
    contact_ms: float
    heard: bool = True
    disconnected: bool = False
    shut_down: bool = False
    metadata_offset: int = -1


class BrokerSessions:
    """The sessions by broker id. Times are in ms of the monotonic clock."""

    def __init__(self, node_id: int, timeout_ms: float) -> None:
        self._node_id, self._timeout_ms = node_id, timeout_ms
        self._sessions: dict[int, BrokerSession] = {}
        self._check_ms = inf

    @property
    def deadline_ms(self) -> float:
        """Return the time of the next check, or inf if no broker has a session."""
        return self._check_ms

    def begin(self, brokers: Iterable[BrokerImage], now_ms: float) -> None:
        """Begin a session for each unfenced broker, when this controller becomes active."""
        self._sessions.clear()
        for broker in brokers:
            if not broker.fenced:
                self.note_contact(broker.id, broker.epoch, now_ms)
        for session in self._sessions.values():
            # Heartbeats went to the earlier controller. Each broker gets a whole session to find this one.
            session.heard = False

    def note_contact(self, broker_id: int, epoch: int, now_ms: float) -> None:
        """Extend the session of a broker that was heard of, or begin one for a new epoch."""
        if broker_id == self._node_id:
            return
        session = self._sessions.get(broker_id)
        if session is None or session.epoch < epoch:
            self._sessions[broker_id] = BrokerSession(epoch, now_ms)
        elif session.epoch == epoch:
            session.contact_ms, session.heard, session.disconnected = now_ms, True, False
        if self._check_ms == inf:
            self._check_ms = now_ms + self._timeout_ms / CHECKS_PER_SESSION

    def note_applied(self, broker_id: int, epoch: int, offset: int) -> None:
        """Note that a broker has applied the metadata log up to `offset`."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.metadata_offset = max(session.metadata_offset, offset)

    def disconnect(self, broker_id: int, epoch: int) -> None:
        """Note that the connection on which a broker sent its heartbeats has ended."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.disconnected = True

    def shut_down(self, broker_id: int) -> None:
        """Note that a broker was told to shut down, so that its next process may register at once."""
        if broker_id in self._sessions:
            self._sessions[broker_id].shut_down = True

    def blocks(self, broker: BrokerImage, directories: Iterable[bytes], now_ms: float) -> bool:
        """Whether another process with the broker's id cannot register, since the registered one seems to run.

        The registered process cannot run if the other process has locked all its log directories and its connection has
        ended, or it has made none since this controller became active.
        """
        session = self._sessions.get(broker.id)
        if session is None or session.epoch != broker.epoch or session.shut_down:
            return False
        is_gone = session.disconnected or (not session.heard and session.contact_ms + UNHEARD_MS < now_ms)
        if is_gone and broker.directories and set(broker.directories) <= set(directories):
            return False
        return not self._expired(session, now_ms)

    def have_applied(self, brokers: Iterable[BrokerImage], offset: int) -> bool:
        """Whether these brokers have applied the metadata log up to `offset`."""
        return all(
            session.metadata_offset >= offset
            for broker in brokers
            if (session := self._sessions.get(broker.id)) is not None and session.epoch == broker.epoch
        )

    def expired(self, brokers: Mapping[int, BrokerImage], now_ms: float) -> list[BrokerImage]:
        """Return the unfenced brokers whose session has ended, forget unregistered brokers, and plan the next check.

        If this check is late by more than the time between two checks, the controller itself has been stopped and could
        not hear of anybody. All sessions are then extended by the delay.
        """
        pause_ms = self._timeout_ms / CHECKS_PER_SESSION
        late_ms = now_ms - self._check_ms
        self._sessions = {broker_id: session for broker_id, session in self._sessions.items() if broker_id in brokers}
        if late_ms > pause_ms:
            for session in self._sessions.values():
                session.contact_ms = min(now_ms, session.contact_ms + late_ms)
        stale = []
        for broker in brokers.values():
            if broker.fenced or broker.id == self._node_id:
                continue
            current = self._sessions.get(broker.id)
            if current is None or current.epoch != broker.epoch:
                self.note_contact(broker.id, broker.epoch, now_ms)
            elif self._expired(current, now_ms):
                stale.append(broker)
        self._check_ms = now_ms + pause_ms if self._sessions else inf
        return stale

    def check_at(self, now_ms: float) -> None:
        """Check the sessions again at this time, since another broker's session has ended too."""
        self._check_ms = now_ms

    def _expired(self, session: BrokerSession, now_ms: float) -> bool:
        return session.contact_ms + self._timeout_ms < now_ms
