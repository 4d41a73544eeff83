"""A directory of Parquet files that a job replaces in one step. Readers see the old state or the new one.

1. The new state is written beside the target, and made durable there.
2. The new state is exchanged with the target, or renamed to the target if there is none yet.
3. The old state, which lies beside the target now, is deleted.

A crash before the second step leaves the old state, and a crash after it the new one. The next run deletes what an
earlier one has written beside the target, and nothing else. The files lie in one directory without subdirectories, so
that the list of a reader is that of one state.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from pykbroker.pipeline import local_files
from pykbroker.pipeline.errors import NoExchange, PipelineError, StateConflict
from pykbroker.pipeline.jobs.state_owner import (
    STAGING_SUFFIX,
    StateOwner,
    StateRun,
    require_in_place,
    require_owned,
    seal,
)
from pykbroker.pipeline.jobs.state_renames import StateRenames
from pykbroker.pipeline.storage import HadoopStorage, LocalStorage, Storage, failures, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEW, PROBE, MARK, UNFINISHED_MARK = "state", "probe", "run.json", ".run.json.tmp"
"""The names in a staging directory. The last one is what a crash leaves of the mark."""
OWN = (NEW, PROBE, UNFINISHED_MARK)
"""The names that a run deletes before it deletes its mark."""
PROBES = (f"{PROBE}/one", f"{PROBE}/two")
BELOW = "give a directory inside of it"
ADVICE = "choose a local directory, or write an Iceberg table with --to-format iceberg"


class StateDirectory:
    """A directory that holds a state. PipelineError: its file system cannot exchange directories."""

    def __init__(self, spark: SparkSession, target: Storage, owner: StateOwner) -> None:
        self._spark, self._owner, self._swap = spark, owner, replacement(target)

    def open(self) -> None:
        self._swap.open(self._owner)

    def replace(self, records: DataFrame) -> int:
        records.write.mode("overwrite").parquet(self._swap.new_directory)
        count = self._spark.read.parquet(literal(self._swap.new_directory)).count()
        self._swap.publish(self._owner)
        return count

    def close(self) -> None:
        self._swap.close()


def replacement(target: Storage) -> StateSwap | StateRenames:
    """Return the way in which a directory is replaced."""
    if isinstance(target, HadoopStorage):
        return StateRenames(target, target.sibling(STAGING_SUFFIX))
    if isinstance(target, LocalStorage):
        return StateSwap(target, target.sibling(STAGING_SUFFIX))
    raise TypeError(target)


class StateSwap:
    """The steps from a new state in a staging directory to its place in the target.

    The staging directory has a mark while it is in use, so that nobody else's directory of its name is touched.
    """

    def __init__(self, target: LocalStorage, staging: LocalStorage) -> None:
        self._target, self._staging, self._run = target, staging, uuid4().hex[:8]
        self._lock: int | None = None
        self._made: list[Path] = []
        self._is_marked = self._keeps_new = False

    @property
    def new_directory(self) -> str:
        """Return the directory into which a new state is to be written."""
        return f"{self._staging.directory}/{NEW}"

    def open(self, owner: StateOwner) -> None:
        """Lock the target, check that it may be replaced, and delete what an earlier run left beside it."""
        if what := self._target.cannot_be_renamed():
            raise StateConflict(f"{self._target.directory} is {what}, which a new state cannot replace: {BELOW}")
        with failures(self._staging.directory):
            self._made = local_files.make(Path(self._staging.directory))
        self._lock = _locked(Path(self._staging.directory), self._made)
        self._mark()
        require_owned(self._target, owner)
        for name in OWN:
            self._staging.delete(name)
        self._probe()

    def publish(self, owner: StateOwner) -> None:
        """Make the new state durable, put it in the place of the target, and delete the old one.

        If the target does not get it, the new state is kept until the next run.
        """
        seal(self._staging, NEW, owner, self._run)
        require_owned(self._target, owner)
        self._keeps_new = True
        if self._target.exists():
            self._staging.copy_mode(NEW, self._target)
            self._exchange()
        else:
            self._target.take(self._staging, NEW, "")
        require_in_place(self._target, self._run, self.new_directory)
        self._keeps_new = False
        self._staging.delete(NEW)

    def close(self) -> None:
        """Delete the staging directory and release the lock. After a crash, the next run tidies up."""
        if self._lock is not None:
            try:
                if self._is_marked and not self._keeps_new:
                    self._tidy()
                local_files.delete_empty([Path(self._staging.directory), *self._made])
            finally:
                os.close(self._lock)
                self._lock = None

    def _mark(self) -> None:
        """Mark the staging directory as that of this run. Raise StateConflict if it has something else."""
        if not is_marked(self._staging) and set(self._staging.names()) - {UNFINISHED_MARK}:
            raise StateConflict(
                f"{self._staging.directory} has files of something else, and a new state is written there: move them "
                "away, or choose another target"
            )
        self._staging.write(MARK, msgspec.json.encode(StateRun(self._run, [NEW])))
        self._is_marked = True

    def _tidy(self) -> None:
        """Delete what this run has written to the staging directory. The mark stays where there is something else."""
        for name in OWN:
            self._staging.delete(name)
        if self._staging.names() == [MARK]:
            self._staging.delete(MARK)

    def _exchange(self) -> None:
        try:
            self._target.exchange("", self._staging, NEW)
        except NoExchange as error:
            raise PipelineError(
                f"{error}, as a directory of an image's layer: the old state is unchanged, and the new one is in "
                f"{self.new_directory} until the next run. Delete the old one, or choose another target"
            ) from error

    def _probe(self) -> None:
        """Raise PipelineError if directories cannot be exchanged, before there is work that would be lost."""
        for name in PROBES:
            self._staging.write(f"{name}/file", b"")
        try:
            self._staging.exchange(PROBES[0], self._staging, PROBES[1])
        except PipelineError as error:
            text = f"the file system of {self._staging.directory} cannot exchange two directories in one step"
            raise PipelineError(f"{text}: {ADVICE}") from error
        self._staging.delete(PROBE)


def is_marked(staging: Storage) -> bool:
    """Whether a staging directory has the mark of a run."""
    if not staging.exists(MARK):
        return False
    try:
        found = msgspec.json.decode(staging.read(MARK), type=StateRun)
    except msgspec.MsgspecError:
        return False
    return found.files == [NEW]


def _locked(directory: Path, made: Iterable[Path]) -> int:
    """Return the descriptor of a directory that this process has locked. Raise StateConflict if another one has.

    `made` are the directories that this process has made for it.
    """
    try:
        with failures(directory):
            descriptor = os.open(directory, os.O_RDONLY)
    except BaseException:
        local_files.delete_empty(made)
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(directory)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):  # another run has it, or has deleted it at its end
        pass
    except OSError as error:
        os.close(descriptor)
        local_files.delete_empty([directory, *made])
        raise PipelineError(f"{directory} cannot be locked: {error.strerror}: {ADVICE}") from error
    os.close(descriptor)
    raise StateConflict(f"another run is writing the state beside {directory}: wait for its end")
