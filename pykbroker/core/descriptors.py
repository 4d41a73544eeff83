"""The division of the process's file descriptors among partitions, clients and the broker's own files.

A partition keeps one descriptor, for its active segment, and a connection keeps one. A share is reserved for clients,
and partitions are limited to the rest, so that clients can always connect. Clients may also use descriptors that
partitions leave free. The other nodes of the cluster may use those that partitions and clients leave free, and a few
more, so that clients do not keep them out.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.errors import ApiError, StartError
from wire.error_codes import ErrorCode

OPEN_FILES_MIN = 64
"""The smallest limit of open files with which a broker starts."""
OWN_DESCRIPTORS = 32
"""Descriptors of the broker itself.

These are the standard streams, pollers, the listener, the metadata log, a worker's pipes (12 to 18), and files that are
open for a moment.
"""
SEALED_SEGMENTS_SHARE = 16
"""One descriptor in this many is reserved for sealed segments, up to `SEALED_SEGMENTS_MAX` in each log directory."""
LENT = 2
"""The number of unloaded segments, per loaded segment, that may stay open while their data is sent to clients."""
SEALED_SEGMENTS_MAX = 64
"""The largest number of sealed segments that are loaded in each log directory."""
CLIENTS_SHARE = 4
"""One descriptor in this many is reserved for clients if no config sets the number."""
DESCRIPTORS_FOR_CLIENTS_MAX = 1000
"""The largest number of descriptors reserved for clients if no config sets the number."""
NODES_SHARE = 8
"""One descriptor in this many may always be used by the connections of a listener for other nodes of the cluster."""
DESCRIPTORS_FOR_NODES_MIN, DESCRIPTORS_FOR_NODES_MAX = 16, 1000
"""The bounds of that number."""
BY_SHARE = -1


class Descriptors(msgspec.Struct, frozen=True):
    """The division of `open_files_max` descriptors, the process's RLIMIT_NOFILE.

    `for_clients_min` is the configured number for clients, or `BY_SHARE`.
    """

    open_files_max: int
    log_directories: int = 1
    for_clients_min: int = BY_SHARE

    @property
    def clients_min(self) -> int:
        """Return the number of descriptors that only clients may use."""
        if self.for_clients_min != BY_SHARE:
            return self.for_clients_min
        return min(DESCRIPTORS_FOR_CLIENTS_MAX, self.open_files_max // CLIENTS_SHARE)

    @property
    def nodes_min(self) -> int:
        """Return how many connections a listener for nodes may always have."""
        return min(DESCRIPTORS_FOR_NODES_MAX, max(DESCRIPTORS_FOR_NODES_MIN, self.open_files_max // NODES_SHARE))

    @property
    def sealed_segments_max(self) -> int:
        """Return how many sealed segments may be loaded in each log directory, at least one."""
        share = self.open_files_max // SEALED_SEGMENTS_SHARE // (1 + LENT) // self.log_directories
        return max(1, min(SEALED_SEGMENTS_MAX, share))

    @property
    def _shared(self) -> int:
        """Return the descriptors left after the locks and sealed segments of all log directories."""
        of_a_directory = 1 + (1 + LENT) * self.sealed_segments_max
        return self.open_files_max - OWN_DESCRIPTORS - self.log_directories * of_a_directory

    @property
    def partitions_max(self) -> int:
        """Return how many partitions may be open."""
        return max(0, self._shared - self.clients_min)

    def connections_max(self, partitions: int, nodes: int = 0) -> int:
        """Return how many connections of clients may be open while this many partitions and those of nodes are."""
        return max(self.clients_min, self._shared - partitions - nodes)

    def connections_of_nodes_max(self, partitions: int, clients: int, others: int) -> int:
        """Return how many connections a listener for nodes may have.

        `clients` and `others` are the numbers of open connections of clients and of other listeners for nodes.
        """
        return max(self.nodes_min, self._shared - partitions - max(clients, self.clients_min) - others)

    def check_start(self) -> None:
        """Raise StartError if the limit is below `OPEN_FILES_MIN` or leaves no descriptor for a partition."""
        if self.open_files_max < OPEN_FILES_MIN:
            raise StartError(
                f"the process may open {self.open_files_max} files, and a broker needs {OPEN_FILES_MIN}:"
                " raise the limit of open files (ulimit -n)"
            )
        if self.partitions_max < 1:
            raise StartError(
                f"{self.limit_text()}, which leaves none for partitions: raise the limit of open files"
                " (ulimit -n), or lower pykbroker.client.descriptors.min"
            )

    def check_room(self, partitions: int, more: int) -> None:
        """Raise ApiError POLICY_VIOLATION if `more` new partitions beside the existing ones would exceed the limit."""
        if partitions + more > self.partitions_max:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{more} more partition(s) beside {partitions} would exceed the"
                f" {self.partitions_max} that this broker can keep open: {self.limit_text()}. Delete topics,"
                f" or raise the limit of open files (ulimit -n) and restart the broker.",
            )

    def limit_text(self) -> str:
        """Describe the limit and the number reserved for clients, for an error message."""
        return f"the process may open {self.open_files_max} files, of which {self.clients_min} are kept for clients"


UNBOUNDED = Descriptors(1 << 40)
"""Descriptors without a limit, for parts that are built without a process, as in tests."""
