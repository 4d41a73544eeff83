"""The acceptor of one broker: makes a connection of each new peer and knows those that are open."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.server.connection import Connection, Tasks
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.table import Table
from pykbroker.world.net import Peer, Pump

logger = logging.getLogger(__name__)


class Listener:
    """Matches `world.net.Accept`. `ticks` gives ns of a monotonic clock, for the routes' counters."""

    def __init__(self, table: Table, tasks: Tasks, ticks: Callable[[], int], request_bytes_max: int) -> None:
        self._table, self._tasks, self._ticks = table, tasks, ticks
        self._request_bytes_max = request_bytes_max
        self._pool = FramePool()
        self._open: set[Connection] = set()

    def __call__(self, peer: Peer, pump: Pump) -> Connection:
        """A connection for `peer`, whose bytes `pump` moves."""
        connection = Connection(peer, pump, self._table, self._tasks, self._pool, self._ticks,
                                self._request_bytes_max, self._open.discard)
        self._open.add(connection)
        logger.debug("%s connected, %d open", peer, len(self._open))
        return connection
