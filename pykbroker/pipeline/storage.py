"""The files of jobs: in a local directory, or on any file system that Spark can reach."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlparse
from uuid import uuid4

from pykbroker.pipeline import local_files
from pykbroker.pipeline.errors import NoExchange, PipelineError, StateConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RENAMES_DIRECTORIES = frozenset(("hdfs", "webhdfs", "swebhdfs", "file"))
"""The schemes of file systems that rename a directory in one step."""
KEEPS_ETAGS = "fs.capability.etags.preserved.in.rename"
"""A capability of stores that have real directories, such as Azure's with a hierarchical namespace."""
LEFT_S_MIN = 24 * 3600
"""The time without a change after which staged files are of a run that has ended, where no lock tells it."""
LOCK_ATTEMPTS = 5
"""The attempts to lock a file that its last holder deletes at the same time."""
VANISHED, LISTINGS_MAX = "FileNotFoundException", 5
"""The exception of Hadoop about a directory that is deleted while it is listed, and the number of listings then."""
MOUNTS, OCTAL = Path("/proc/self/mountinfo"), re.compile(r"\\([0-7]{3})")
"""The file with the mount points of this process, and the characters in it that stand for one of a name (proc(5))."""
PATTERN_SIGNS = re.compile(r"[\[\]{}*?\\]")
"""The characters of patterns for paths in Hadoop."""


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

    def create(self, name: str, content: bytes) -> None:
        """Write a file in one step. Raise StateConflict if it exists: another run is at work."""

    def rename(self, name: str, target: str) -> None:
        """Rename a file in this directory. The target must not exist."""

    def take(self, other: Storage, name: str, target: str) -> None:
        """Move a file or directory of another one into this. The target must not exist.

        A file may come from another file system: it appears as a whole, and its source is deleted then.
        """

    def delete(self, name: str = "") -> None:
        """Delete a file, or a directory with everything in it, if it exists."""

    def delete_empty(self, name: str = "") -> None:
        """Delete a directory if it exists and is empty."""

    def delete_leftovers(self, name: str, pattern: re.Pattern[str]) -> None:
        """Delete what ended runs have left in a directory, and the directory if it is empty then.

        Only names that match the pattern as a whole are deleted. Where a lock admits one run, all of these are deleted,
        and otherwise only those that are a day old.
        """

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def files(self, name: str = "") -> list[StoredFile]:
        """Return all files below a directory, sorted by path, none if it does not exist.

        Files may come and go meanwhile. A link to a directory is a file, which is not followed.
        """

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        """Exchange a directory with one of another storage in one step. Raise NoExchange where that is not possible."""

    def sync(self, name: str) -> None:
        """Make a file durable, or everything below a directory."""

    def names(self) -> list[str]:
        """Return the names of what lies in the directory, the newest first, none if it does not exist."""

    def copy_mode(self, name: str, other: Storage) -> None:
        """Give a directory the mode of that of another storage, and its owner where this process may do so."""

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock file for a block. Raise StateConflict if another process of this machine holds it.

        At the end, the file is deleted, and so are the directories that were made for it and are empty.
        """


def literal(path: str) -> str:
    """Return a path for Spark's readers, which take `[`, `{`, `*` and their like in its names for a pattern."""
    return PATTERN_SIGNS.sub(r"\\\g<0>", path)


def real_path(place: str) -> str:
    """Return the path of a place without links, in one spelling, or a URI of another file system or a name as it is."""
    parsed = urlparse(place)
    if parsed.scheme == "file":
        return os.path.realpath(unquote(parsed.path))
    return place.rstrip("/") if parsed.scheme else os.path.realpath(place)


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


def taken(path: object) -> StateConflict:
    """Return the error about a file that another run has created."""
    return StateConflict(f"{path} exists: another run is writing to its directory now. Stop one of them")


def no_exchange(path: object, reason: str = "") -> NoExchange:
    """Return the error about a directory that cannot be exchanged."""
    return NoExchange(f"{path} cannot be exchanged with another directory in one step{reason and f': {reason}'}")


def is_mounted(path: Path) -> bool:
    """Whether Linux has mounted something at a path. A part of the same file system may be mounted, too."""
    place = os.path.realpath(path)
    table = MOUNTS.read_text(errors="surrogateescape") if MOUNTS.exists() else ""
    points = (line.split(" ")[4] for line in table.splitlines())
    return any(OCTAL.sub(lambda code: chr(int(code[1], 8)), each) == place for each in points)


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
            local_files.make(path.parent)
            local_files.replace(path, temporary, content)

    def create(self, name: str, content: bytes) -> None:
        path = self._root / name
        with failures(path):
            local_files.make(path.parent)
            try:
                local_files.replace(path, local_files.temporary(path), content, local_files.rename_new)
            except FileExistsError:
                raise taken(path) from None

    def rename(self, name: str, target: str) -> None:
        self.take(self, name, target)

    def take(self, other: Storage, name: str, target: str) -> None:
        source, path = Path(other.directory) / name, self._root / target
        with failures(source):
            local_files.make(path.parent)
            try:
                source.rename(path)
            except OSError as error:
                if error.errno != errno.EXDEV or source.is_dir():
                    raise
                local_files.move_across(source, path)
            local_files.sync(path.parent)

    def delete(self, name: str = "") -> None:
        path = self._root / name
        with failures(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def delete_empty(self, name: str = "") -> None:
        local_files.delete_empty([self._root / name])

    def delete_leftovers(self, name: str, pattern: re.Pattern[str]) -> None:
        directory, found = self._root / name, list[str]()
        with failures(directory), suppress(FileNotFoundError):
            found = os.listdir(directory)
        for each in found:
            if pattern.fullmatch(each):
                self.delete(f"{name}/{each}" if name else each)
        self.delete_empty(name)

    def size(self, name: str) -> int:
        with failures(self._root / name):
            return (self._root / name).stat().st_size

    def files(self, name: str = "") -> list[StoredFile]:
        found = []
        with failures(self._root / name):
            for directory, below, names in os.walk(self._root / name):
                links = (each for each in below if (Path(directory) / each).is_symlink())
                for path in (Path(directory) / each for each in (*names, *links)):
                    with suppress(FileNotFoundError):  # it was deleted meanwhile
                        size = (path.stat() if path.is_file() else path.lstat()).st_size
                        found.append(StoredFile(path.relative_to(self._root).as_posix(), size))
        return sorted(found)

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        if not isinstance(other, LocalStorage):
            raise no_exchange(self._root / name)
        with failures(self._root / name):
            try:
                local_files.rename(self._root / name, other._root / other_name, local_files.RENAME_EXCHANGE)
            except OSError as error:
                if error.errno in local_files.NO_EXCHANGE:
                    raise no_exchange(self._root / name, str(error.strerror)) from None
                raise
            for path in {(self._root / name).parent, (other._root / other_name).parent}:
                local_files.sync(path)

    def cannot_be_renamed(self) -> str:
        """Return what the directory is if a rename cannot replace it, such as "a mount point", or nothing."""
        with failures(self._root):
            if self._root.is_symlink():
                return f"a link to {self._root.resolve()}"
            return "a mount point" if self._root.is_mount() or is_mounted(self._root) else ""

    def sync(self, name: str) -> None:
        with failures(self._root / name):
            if (self._root / name).is_file():
                local_files.sync(self._root / name)
            for directory, _, names in os.walk(self._root / name):
                paths = [Path(directory) / each for each in names]
                for path in (*(each for each in paths if each.is_file()), Path(directory)):
                    local_files.sync(path)
            for path in (self._root / name).parents[: len(Path(name).parts)]:
                local_files.sync(path)

    def mirror(self, name: str, target: str, without: Container[str]) -> bool:
        """Give everything below a directory but some files a second name below another one.

        Links stay links, and directories have their modes. Return False where a file cannot have a second name.
        """
        directories = []
        with failures(self._root / name):
            for directory, below, names in os.walk(self._root / name):
                place = self._root / target / Path(directory).relative_to(self._root / name)
                place.mkdir(exist_ok=True)
                directories.append((Path(directory), place))
                for path in (Path(directory) / each for each in (*names, *below)):
                    is_left = not path.is_symlink() and path.is_dir()
                    if is_left or path.relative_to(self._root).as_posix() in without:
                        continue
                    try:
                        os.link(path, place / path.name, follow_symlinks=False)
                    except OSError as error:
                        if error.errno in local_files.NO_LINK:
                            return False
                        raise
            for source, place in reversed(directories):
                local_files.copy_mode(source, place)
        return True

    def names(self) -> list[str]:
        with failures(self._root):
            found = list(self._root.iterdir()) if self._root.exists() else []
            return [each.name for each in sorted(found, key=lambda each: -each.lstat().st_mtime)]

    def copy_mode(self, name: str, other: Storage) -> None:
        with failures(self._root / name):
            local_files.copy_mode(Path(other.directory), self._root / name)
            local_files.sync(self._root / name)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        path, made = self._root / name, list[Path]()
        try:
            with failures(path):
                descriptor = self._locked(path, made)
            try:
                yield
            finally:
                try:
                    with suppress(OSError):
                        path.unlink()
                finally:
                    os.close(descriptor)  # an interrupt would leave the lock to this process until its end
        finally:
            local_files.delete_empty(made)

    def _locked(self, path: Path, made: list[Path]) -> int:
        """Return the descriptor of a lock file that this process holds. Its holder deletes the file at the end.

        `made` gets the directories that were made for it.
        """
        for _ in range(LOCK_ATTEMPTS):
            made += local_files.make(path.parent)
            with suppress(FileNotFoundError):  # the last holder has deleted the directory
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.path.samestat(os.fstat(descriptor), path.stat()):
                        return descriptor
                except BlockingIOError:
                    os.close(descriptor)
                    break
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
        raise StateConflict(f"another process is working on {self._root} now: wait for its end, or stop it first")


def write_file(place: str | Path, content: bytes) -> None:
    """Write a file outside of any storage. Readers see the old content or the new one, also after a crash.

    A link is followed, and nothing else in the directory is touched. What is no regular file is written as it is.
    """
    path = Path(os.path.realpath(place))
    with failures(path):
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            local_files.replace(path, local_files.temporary(path), content)


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
        self._rename(self._temporary(name, content), self._at(name), "OVERWRITE")

    def create(self, name: str, content: bytes) -> None:
        temporary = self._temporary(name, content)
        try:
            self._rename(temporary, self._at(name), "NONE")
        except PipelineError:
            with failures(temporary):
                self._files.delete(temporary, False)
            if self.exists(name):
                raise taken(self._at(name)) from None
            raise

    def _temporary(self, name: str, content: bytes) -> Any:
        """Write a file under another name, which no other process has. Return its path."""
        path = self._at(f"{name}.{uuid4().hex[:8]}.tmp")
        with failures(path):
            stream = self._files.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        return path

    def _rename(self, source: Any, target: Any, option: str) -> None:
        """Rename a file or directory. `FileSystem.rename` would move it into a target that is a directory."""
        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        gateway: Any = self._spark.sparkContext._gateway
        options = gateway.new_array(kind, 1)
        options[0] = getattr(kind, option)
        with failures(source):
            configuration = self._spark._jsc.hadoopConfiguration()
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)
            context.rename(source, target, options)

    def rename(self, name: str, target: str) -> None:
        self.take(self, name, target)

    def take(self, other: Storage, name: str, target: str) -> None:
        source = self._jvm.org.apache.hadoop.fs.Path(f"{other.directory}/{name}" if name else other.directory)
        with failures(source):
            self._files.mkdirs(self._at(target).getParent())
        self._rename(source, self._at(target), "NONE")

    def renames_directories(self) -> bool:
        """Whether a directory is renamed in one step, unlike in a store of objects. The directory must exist."""
        with failures(self._root):
            place = self._files.resolvePath(self._root)  # that behind a mount point of viewfs
            if place.toUri().getScheme() in RENAMES_DIRECTORIES:
                return True
            return bool(
                place.getFileSystem(self._spark._jsc.hadoopConfiguration()).hasPathCapability(place, KEEPS_ETAGS)
            )

    def delete(self, name: str = "") -> None:
        with failures(self._at(name)):
            self._files.delete(self._at(name), True)

    def make(self) -> None:
        with failures(self._root):
            self._files.mkdirs(self._root)

    def names(self) -> list[str]:
        with failures(self._root):
            if not self._files.exists(self._root):
                return []
            statuses = sorted(self._files.listStatus(self._root), key=lambda each: -each.getModificationTime())
            return [each.getPath().getName() for each in statuses]

    def delete_empty(self, name: str = "") -> None:
        with suppress(PipelineError), failures(self._at(name)):
            self._files.delete(self._at(name), False)  # it fails if there is more

    def delete_leftovers(self, name: str, pattern: re.Pattern[str]) -> None:
        if not self.exists(name):
            return
        oldest_ms = (time.time() - LEFT_S_MIN) * 1000
        with failures(self._at(name)):
            for each in self._files.listStatus(self._at(name)):
                if each.getModificationTime() < oldest_ms and pattern.fullmatch(each.getPath().getName()):
                    self._files.delete(each.getPath(), True)
        self.delete_empty(name)

    def size(self, name: str) -> int:
        with failures(self._at(name)):
            return int(self._files.getFileStatus(self._at(name)).getLen())

    def files(self, name: str = "") -> list[StoredFile]:
        for _ in range(LISTINGS_MAX - 1):
            try:
                return self._listed(name)
            except PipelineError as error:  # a directory below may be gone by now
                if VANISHED not in str(error):
                    raise
        return self._listed(name)

    def _listed(self, name: str) -> list[StoredFile]:
        found = []
        with failures(self._at(name)):
            if self._files.exists(self._at(name)):
                statuses = self._files.listFiles(self._at(name), True)
                while statuses.hasNext():
                    status = statuses.next()
                    path = status.getPath().toString()[len(self.directory) + 1 :]
                    found.append(StoredFile(path, status.getLen()))
        return sorted(found)

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        raise no_exchange(self._at(name))

    def sync(self, name: str) -> None:
        """Do nothing: a closed file of such a system is durable."""

    def copy_mode(self, name: str, other: Storage) -> None:
        with failures(self._at(name)):
            status = self._files.getFileStatus(self._jvm.org.apache.hadoop.fs.Path(other.directory))
            self._files.setPermission(self._at(name), status.getPermission())

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        yield  # of two runs with one checkpoint, one fails when it writes a file that the other one has created

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
