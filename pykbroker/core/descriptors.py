"""How the descriptors that this process may have open are divided among partitions, clients and its own files.

A partition keeps one descriptor, for its active segment, and a connection keeps one. The clients' part is set aside
and partitions are held to the rest, so that clients can always connect. Clients may take what partitions leave.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykbroker.core.errors import ApiError, StartError
from wire.error_codes import ErrorCode

OPEN_FILES_MIN = 64
"""With fewer a broker does not start."""
OWN_DESCRIPTORS = 32
"""Standard streams, pollers, listener, metadata log, a worker's pipes (12 to 18), and files open for a moment."""
SEALED_SEGMENTS_SHARE = 16
"""One descriptor in so many is for sealed segments, until each log directory may load `SEALED_SEGMENTS_MAX`."""
LENT = 2
"""How many unloaded segments may stay open while clients are sent their data, for each loaded segment."""
SEALED_SEGMENTS_MAX = 64
CLIENTS_SHARE = 4
"""One descriptor in so many is kept for clients, where no config says how many."""
DESCRIPTORS_FOR_CLIENTS_MAX = 1000
"""More are not kept for clients, where no config says how many."""
BY_SHARE = -1


@dataclass(frozen=True, slots=True)
class Descriptors:
    """`open_files_max`: the process's limit, RLIMIT_NOFILE. `for_clients_min`: as configured, or `BY_SHARE`."""

    open_files_max: int
    log_directories: int = 1
    for_clients_min: int = BY_SHARE

    @property
    def clients_min(self) -> int:
        """Descriptors that partitions never take from clients."""
        if self.for_clients_min != BY_SHARE:
            return self.for_clients_min
        return min(DESCRIPTORS_FOR_CLIENTS_MAX, self.open_files_max // CLIENTS_SHARE)

    @property
    def sealed_segments_max(self) -> int:
        """Sealed segments that may be loaded in each log directory, at least one."""
        share = self.open_files_max // SEALED_SEGMENTS_SHARE // (1 + LENT) // self.log_directories
        return max(1, min(SEALED_SEGMENTS_MAX, share))

    @property
    def _shared(self) -> int:
        """Descriptors for partitions and clients; each directory has a lock, and its sealed segments."""
        of_a_directory = 1 + (1 + LENT) * self.sealed_segments_max
        return self.open_files_max - OWN_DESCRIPTORS - self.log_directories * of_a_directory

    @property
    def partitions_max(self) -> int:
        """Partitions that may be open."""
        return max(0, self._shared - self.clients_min)

    def connections_max(self, partitions: int) -> int:
        """Connections that may be open beside so many partitions."""
        return max(self.clients_min, self._shared - partitions)

    def check_start(self) -> None:
        """StartError: the limit is below `OPEN_FILES_MIN`, or what is configured leaves no partition."""
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
        """ApiError POLICY_VIOLATION: `more` partitions beside those that there are would be too many."""
        if partitions + more > self.partitions_max:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{more} more partition(s) beside {partitions} would exceed the"
                f" {self.partitions_max} that this broker can keep open: {self.limit_text()}. Delete topics,"
                f" or raise the limit of open files (ulimit -n) and restart the broker.",
            )

    def limit_text(self) -> str:
        """The limit, and what is kept of it for clients."""
        return f"the process may open {self.open_files_max} files, of which {self.clients_min} are kept for clients"


UNBOUNDED = Descriptors(1 << 40)
"""No limit: for parts that are built without a process, as in tests."""
