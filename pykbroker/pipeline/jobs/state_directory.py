"""A directory of Parquet files that a job replaces in one step. Readers see the old state or the new one.

1. The new state is written beside the target, and made durable there.
2. It is exchanged with the target, or renamed to it if there is no target yet.
3. The old state, which lies beside the target now, is deleted.

A crash before the second step leaves the old state, and a crash after it the new one. The next run deletes what lies
beside the target. The files lie in one directory without subdirectories, so that the list of a reader is that of one
state.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.state_owner import StateOwner, require_owned, seal
from pykbroker.pipeline.jobs.state_renames import StateRenames
from pykbroker.pipeline.storage import HadoopStorage, Storage, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEW = "state"
PROBES = ("probe/one", "probe/two")
ADVICE = "choose a local directory, or write an Iceberg table with --to-format iceberg"


class StateDirectory:
    """A directory that holds a state. PipelineError: its file system cannot exchange directories."""

    def __init__(self, spark: SparkSession, target: Storage, owner: StateOwner) -> None:
        self._spark, self._owner = spark, owner
        self._swap = replacement(target)

    def open(self) -> None:
        self._swap.open(self._owner)

    def replace(self, records: DataFrame) -> int:
        records.write.parquet(self._swap.new_directory)
        count = self._spark.read.parquet(literal(self._swap.new_directory)).count()
        self._swap.publish(self._owner)
        return count

    def close(self) -> None:
        self._swap.close()


def replacement(target: Storage) -> StateSwap | StateRenames:
    """Return the way in which a directory is replaced."""
    if isinstance(target, HadoopStorage):
        return StateRenames(target, target.sibling(".staging"))
    return StateSwap(target, target.sibling(".staging"))


class StateSwap:
    """The steps from a new state in a staging directory to its place in the target."""

    def __init__(self, target: Storage, staging: Storage) -> None:
        self._target, self._staging = target, staging
        self._lock: int | None = None

    @property
    def new_directory(self) -> str:
        """Return the directory into which a new state is to be written."""
        return f"{self._staging.directory}/{NEW}"

    def open(self, owner: StateOwner) -> None:
        """Lock the target, check that it may be replaced, and delete what an earlier run left beside it."""
        self._lock = _locked(Path(self._staging.directory))
        require_owned(self._target, owner)
        for name in (NEW, "probe"):
            self._staging.delete(name)
        self._probe()

    def publish(self, owner: StateOwner) -> None:
        """Make the new state durable, put it in the place of the target, and delete the old one."""
        seal(self._staging, NEW, owner)
        if self._target.exists():
            self._target.exchange("", self._staging, NEW)
        else:
            self._target.take(self._staging, NEW, "")
        self._staging.delete(NEW)

    def close(self) -> None:
        """Delete the staging directory and release the lock. After an error, the next run tidies up."""
        if self._lock is not None:
            self._staging.delete()
            os.close(self._lock)
            self._lock = None

    def _probe(self) -> None:
        """Raise PipelineError if directories cannot be exchanged, before there is work that would be lost."""
        for name in PROBES:
            self._staging.write(f"{name}/file", b"")
        try:
            is_possible = self._staging.exchange(PROBES[0], self._staging, PROBES[1])
        except PipelineError:
            is_possible = False
        if not is_possible:
            text = f"the file system of {self._staging.directory} cannot exchange two directories in one step"
            raise PipelineError(f"{text}: {ADVICE}")
        self._staging.delete("probe")


def _locked(directory: Path) -> int:
    """Return the descriptor of a directory that this process has locked. Raise StateConflict if another one has."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise PipelineError(f"{directory}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(directory)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    raise StateConflict(f"another run is writing the state beside {directory}: wait for its end")
