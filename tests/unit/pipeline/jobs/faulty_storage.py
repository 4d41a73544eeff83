"""A storage of jobs with a fault at one of its steps, and one that behaves as HDFS does."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.storage import LocalStorage, Storage, no_exchange, taken

STEPS_MAX = 500
Fault = Literal["crash before", "crash within", "crash after", "error before", "error after"]
FAULTS: tuple[Fault, ...] = ("crash before", "crash within", "crash after", "error before", "error after")


class Crash(BaseException):
    """The end of the process."""


class Disk:
    """The steps of all storages of a run, of which one has a fault, or another action before it."""

    def __init__(self) -> None:
        self.steps = self._at = 0
        self._fault: Fault = "crash before"
        self._action: Callable[[], object] | None = None

    def run(self, job: Callable[[], object], at: int, fault: Fault) -> bool:
        """Run a job with a fault at a step. Return whether it came to that step. Its error is taken for its end."""
        self.steps, self._at, self._fault = 0, at, fault
        try:
            job()
        except (Crash, PipelineError):
            if self.steps < at:
                raise
        finally:
            self._at = 0
        return self.steps >= at

    def run_beside(self, job: Callable[[], object], at: int, other: Callable[[], object]) -> bool:
        """Run a job, and another one before its step number `at`. Return whether the first one came to that step."""
        self.steps, self._at, self._action = 0, at, other
        try:
            job()
        except PipelineError:
            if self.steps < at:
                raise
        finally:
            self._at, self._action = 0, None
        return self.steps >= at

    def step(self, storage: LocalStorage, name: str, action: Callable[[], Any]) -> Any:
        """Do a step of a storage on a file or directory, or what is to happen in its place."""
        self.steps += 1
        if self.steps != self._at:
            return action()
        if self._action is not None:
            self._at = 0
            self._action()
            return action()
        self._fail("before")
        if self._fault == "crash within":
            for file in LocalStorage.files(storage, name)[::2]:  # a tree may have lost half of its files
                if action.__name__ == "delete":
                    Path(storage.directory, file.path).unlink()
            raise Crash
        found = action()
        self._fail("after")
        return found

    def _fail(self, moment: str) -> None:
        if self._fault == f"crash {moment}":
            raise Crash
        if self._fault == f"error {moment}":
            raise PipelineError("No space left on device")


class FaultyStorage(LocalStorage):
    """A storage whose steps are those of a disk."""

    disk: Disk = Disk()

    def sibling(self, suffix: str) -> FaultyStorage:
        return type(self)(super().sibling(suffix).directory)

    def write(self, name: str, content: bytes) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).write(name, content))

    def create(self, name: str, content: bytes) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).create(name, content))

    def take(self, other: Storage, name: str, target: str) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).take(other, name, target))

    def delete(self, name: str = "") -> None:
        def delete() -> None:
            super(FaultyStorage, self).delete(name)

        if self.exists(name) or (Path(self.directory) / name).is_symlink():
            self.disk.step(self, name, delete)

    def delete_empty(self, name: str = "") -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).delete_empty(name))

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).exchange(name, other, other_name))

    def sync(self, name: str) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).sync(name))

    def mirror(self, name: str, target: str, without: Container[str]) -> bool:
        found: bool = self.disk.step(self, name, lambda: super(FaultyStorage, self).mirror(name, target, without))
        return found

    def copy_mode(self, name: str, other: Storage) -> None:
        self.disk.step(self, name, lambda: super(FaultyStorage, self).copy_mode(name, other))


class RenamingStorage(FaultyStorage):
    """A storage as that of HDFS: without locks and exchanges, and no rename replaces anything."""

    def create(self, name: str, content: bytes) -> None:
        def create() -> None:
            if self.exists(name):
                raise taken(name)
            LocalStorage.write(self, name, content)

        self.disk.step(self, name, create)

    def take(self, other: Storage, name: str, target: str) -> None:
        def take() -> None:
            if self.exists(target):
                raise PipelineError(f"{target} exists")
            LocalStorage.take(self, other, name, target)

        self.disk.step(self, name, take)

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        raise no_exchange(name)

    def mirror(self, name: str, target: str, without: Container[str]) -> bool:
        return False

    def delete_leftovers(self, name: str, pattern: re.Pattern[str]) -> None:
        """Delete nothing: all files are younger than a day."""
        self.delete_empty(name)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        yield

    def make(self) -> None:
        """Make the directory."""
        Path(self.directory).mkdir(parents=True, exist_ok=True)

    def renames_directories(self) -> bool:
        """Whether a directory is renamed in one step."""
        return True
