"""The files of jobs: in a local directory, or on any file system that Spark can reach."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlparse

from pykbroker.pipeline.errors import PipelineError, StateConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""The arguments of renameat2 for paths, and for an exchange."""
NO_EXCHANGE = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV))
"""The errors of a file system that cannot exchange directories."""


class StoredFile(NamedTuple):
    """A file below a directory: its path relative to the directory, with slashes, and its size in bytes."""

    path: str
    size: int


class Storage(Protocol):
    """The files below one directory. Names are relative to it. PipelineError: the file system has failed."""

    @property
    def directory(self) -> str:
        """Return the directory, as Spark takes it."""

    def sibling(self, suffix: str) -> Storage:
        """Return the storage of the directory beside this one whose name has a suffix."""

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or directory of this name."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which after a crash has all of the new content, or is as it was before."""

    def rename(self, name: str, target: str) -> None:
        """Rename a file in this directory. The target must not exist."""

    def take(self, other: Storage, name: str, target: str) -> None:
        """Move a file of another directory on the same file system into this one. The target must not exist."""

    def delete(self, name: str = "") -> None:
        """Delete a file, or a directory with everything in it, if it exists."""

    def files(self, name: str = "") -> list[StoredFile]:
        """Return all files below a directory, sorted by path, none if it does not exist."""

    def exchange(self, name: str, other: Storage, other_name: str) -> bool:
        """Exchange a directory with one of another storage in one step. Return False where that is not possible."""

    def sync(self, name: str) -> None:
        """Make everything below a directory durable."""

    def link(self, other: Storage, name: str, target: str) -> None:
        """Give a file of another storage a second name in this one. Both must be local."""

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock file for a block. Raise StateConflict if another process of this machine holds it."""


@contextmanager
def failures(path: object) -> Iterator[None]:
    """Raise the errors of a file system as PipelineError, with what to do about the usual ones."""
    try:
        yield
    except OSError as error:
        raise PipelineError(f"{error.filename or path}: {error.strerror or error}") from error
    except PipelineError:
        raise
    except Exception as error:
        if type(error).__module__.startswith("py4j"):
            cause = str(getattr(error, "java_exception", error))
            raise PipelineError(f"{path}: {cause.splitlines()[0]}") from error
        raise


class LocalStorage:
    """The files below a directory of this machine."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory).absolute()

    @property
    def directory(self) -> str:
        return str(self._root)

    def sibling(self, suffix: str) -> LocalStorage:
        return LocalStorage(self._root.with_name(self._root.name + suffix))

    def exists(self, name: str = "") -> bool:
        with failures(self._root / name):
            return (self._root / name).exists()

    def read(self, name: str) -> bytes:
        with failures(self._root / name):
            return (self._root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        path = self._root / name
        temporary = path.with_name(f".{path.name}.tmp")
        with failures(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            _sync(path.parent)

    def rename(self, name: str, target: str) -> None:
        self.take(self, name, target)

    def take(self, other: Storage, name: str, target: str) -> None:
        source, path = Path(other.directory) / name, self._root / target
        with failures(source):
            path.parent.mkdir(parents=True, exist_ok=True)
            source.rename(path)
            _sync(path.parent)

    def delete(self, name: str = "") -> None:
        path = self._root / name
        with failures(path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def files(self, name: str = "") -> list[StoredFile]:
        found = []
        with failures(self._root / name):
            for directory, _, names in os.walk(self._root / name):
                paths = (Path(directory) / each for each in names)
                found += [StoredFile(path.relative_to(self._root).as_posix(), path.stat().st_size) for path in paths]
        return sorted(found)

    def exchange(self, name: str, other: Storage, other_name: str) -> bool:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "renameat2") or not isinstance(other, LocalStorage):
            return False
        one, two = os.fsencode(self._root / name), os.fsencode(other._root / other_name)
        with failures(self._root / name):
            if libc.renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE):
                number = ctypes.get_errno()
                if number in NO_EXCHANGE:
                    return False
                raise OSError(number, os.strerror(number), str(self._root / name))
            for path in {(self._root / name).parent, (other._root / other_name).parent}:
                _sync(path)
        return True

    def sync(self, name: str) -> None:
        with failures(self._root / name):
            for directory, _, names in os.walk(self._root / name):
                for path in (*(Path(directory) / each for each in names), Path(directory)):
                    _sync(path)

    def link(self, other: Storage, name: str, target: str) -> None:
        with failures(self._root / target):
            (self._root / target).parent.mkdir(parents=True, exist_ok=True)
            os.link(Path(other.directory) / name, self._root / target)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        path = self._root / name
        with failures(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with failures(path):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = f"another process is working on {self._root} now: wait for its end, or stop it first"
                    raise StateConflict(text) from None
            yield
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    """Make the content of a file or the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopStorage:
    """The files below a directory of a file system that Hadoop's client knows, such as hdfs or s3a."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        jvm: Any = spark._jvm
        self._spark, self._jvm = spark, jvm
        self._root = jvm.org.apache.hadoop.fs.Path(directory)
        with failures(directory):
            self._files = self._root.getFileSystem(spark._jsc.hadoopConfiguration())
            self._root = self._files.makeQualified(self._root)

    @property
    def directory(self) -> str:
        found: str = self._root.toString()
        return found

    def sibling(self, suffix: str) -> HadoopStorage:
        return HadoopStorage(self._spark, self.directory + suffix)

    def exists(self, name: str = "") -> bool:
        with failures(self._at(name)):
            return bool(self._files.exists(self._at(name)))

    def read(self, name: str) -> bytes:
        with failures(self._at(name)):
            stream = self._files.open(self._at(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        temporary = f"{name}.tmp"
        with failures(self._at(name)):
            stream = self._files.create(self._at(temporary), True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
            self._replace(temporary, name)

    def _replace(self, name: str, target: str) -> None:
        """Rename a file in one step, also if the target exists, which `FileSystem.rename` refuses."""
        hadoop = self._jvm.org.apache.hadoop
        option = getattr(hadoop.fs, "Options$Rename")
        gateway: Any = self._spark.sparkContext._gateway
        options = gateway.new_array(option, 1)
        options[0] = option.OVERWRITE
        context = hadoop.fs.FileContext.getFileContext(self._root.toUri(), self._spark._jsc.hadoopConfiguration())
        context.rename(self._at(name), self._at(target), options)

    def rename(self, name: str, target: str) -> None:
        self.take(self, name, target)

    def take(self, other: Storage, name: str, target: str) -> None:
        source = self._jvm.org.apache.hadoop.fs.Path(f"{other.directory}/{name}")
        with failures(source):
            self._files.mkdirs(self._at(target).getParent())
            if not self._files.rename(source, self._at(target)):
                raise PipelineError(f"{source} cannot be renamed to {self._at(target)}")

    def delete(self, name: str = "") -> None:
        with failures(self._at(name)):
            self._files.delete(self._at(name), True)

    def files(self, name: str = "") -> list[StoredFile]:
        found = []
        with failures(self._at(name)):
            if self._files.exists(self._at(name)):
                statuses = self._files.listFiles(self._at(name), True)
                while statuses.hasNext():
                    status = statuses.next()
                    path = status.getPath().toString()[len(self.directory) + 1 :]
                    found.append(StoredFile(path, status.getLen()))
        return sorted(found)

    def exchange(self, name: str, other: Storage, other_name: str) -> bool:
        return False

    def sync(self, name: str) -> None:
        """Do nothing: a closed file of such a system is durable."""

    def link(self, other: Storage, name: str, target: str) -> None:
        raise PipelineError(f"{self.directory} is not local: its files have one name each")

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        yield  # Spark itself refuses a second query with the same checkpoint

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def storage_of(spark: SparkSession, directory: str) -> Storage:
    """Return the storage of a directory, which may be a path or a URI."""
    parsed = urlparse(directory)
    scheme = parsed.scheme or urlparse(_default_file_system(spark)).scheme
    if scheme == "file":
        return LocalStorage(unquote(parsed.path) if parsed.scheme else directory)
    return HadoopStorage(spark, directory)


def _default_file_system(spark: SparkSession) -> str:
    found: str = spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return found
