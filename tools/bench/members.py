"""Many members of one classic group in one epoll loop. To be cheap, a member has at most one unanswered request."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable

from tools.bench import frames, group_frames

HEARTBEAT_S = 0.1
"""The heartbeat interval. Members notice a rebalance only by a heartbeat; the default of consumers is 3 s."""
RECEIVE_BYTES = 1 << 20
WITHIN_S = 120
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27


class Member:
    """A member that joins, syncs, and rejoins at each rebalance. `generation` is the generation of its assignment."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.socket = frames.Caller(port).socket
        self.group, self.topic = group, topic
        self.id, self.generation = "", -1
        self.next_heartbeat = 0.0
        self._joined = -1
        self._received = b""
        self._answered: Callable[[bytes], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the member has no unanswered request."""
        return self._answered is None

    def join(self) -> None:
        self.generation = -1
        self._ask(group_frames.join(self.group, self.id, self.topic), self._on_join)

    def heartbeat(self) -> None:
        self.next_heartbeat = time.perf_counter() + HEARTBEAT_S
        self._ask(group_frames.heartbeat(self.group, self.generation, self.id), self._on_heartbeat)

    def leave(self) -> None:
        """Send LeaveGroup; no other request may be unanswered."""
        self._ask(group_frames.leave(self.group, self.id), self._on_leave)

    def read(self) -> None:
        """Read from the connection, which must be readable."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._received += data
        if len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) == 4 + size and self._answered is not None:
                reply, self._received = self._received[4:], b""
                answered, self._answered = self._answered, None
                answered(reply)

    def _ask(self, request: bytes, answered: Callable[[bytes], None]) -> None:
        self._answered = answered
        self.socket.sendall(request)

    def _on_join(self, reply: bytes) -> None:
        code, generation, member_id, members = group_frames.join_answer(reply)
        if code:
            self._go_on(code)
            return
        self.id, self._joined = member_id, generation
        self._ask(group_frames.sync(self.group, generation, member_id, members), self._on_sync)

    def _on_sync(self, reply: bytes) -> None:
        if code := group_frames.error(reply):
            self._go_on(code)
        else:
            self.generation, self.next_heartbeat = self._joined, time.perf_counter() + HEARTBEAT_S

    def _on_heartbeat(self, reply: bytes) -> None:
        if code := group_frames.error(reply):
            self._go_on(code)

    def _on_leave(self, reply: bytes) -> None:
        if code := group_frames.error(reply):
            raise RuntimeError(f"LeaveGroup was answered with error {code}")

    def _go_on(self, code: int) -> None:
        if code not in (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS):
            raise RuntimeError(f"a member was answered with error {code}")
        if code == UNKNOWN_MEMBER_ID:
            self.id = ""
        self.join()


def settle(members: list[Member], after: int = -1) -> None:
    """Run all members until they have assignments of one generation above `after`.

    Raise RuntimeError if the members do not get there in time.
    """
    by_fd = {member.socket.fileno(): member for member in members}
    poll = select.epoll()
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    deadline = time.perf_counter() + WITHIN_S
    while members[0].generation <= after or len({member.generation for member in members}) > 1:
        for fd, _ in poll.poll(HEARTBEAT_S / 10):
            by_fd[fd].read()
        now = time.perf_counter()
        if now > deadline:
            raise RuntimeError(f"the group is not stable after {WITHIN_S} s")
        for member in members:
            if member.is_idle and member.next_heartbeat < now:
                member.heartbeat()
    poll.close()


def close(members: list[Member]) -> None:
    """Close all connections with a reset, so that no port stays in TIME_WAIT."""
    for member in members:
        member.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        member.socket.close()
