"""A simulated file system: the content that processes see, the durable content, and the unsynced changes in between.

Each change is one method call with plain arguments, in which files have numbers. A list of calls is therefore a
recording: replayed on a copy of the volume, it has the same result. Paths are relative and use "/". "" is the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")


class Write(NamedTuple):
    """A write of bytes at an offset."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Write the bytes; a gap before the offset becomes zeros."""
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data


class Truncate(NamedTuple):
    """A truncation of a file to `size` bytes."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Truncate the content. It is never lengthened."""
        del content[self.size :]


class Unsynced(Generic[C]):
    """The changes since the last fsync, oldest first.

    `settled` counts the earlier changes, which are durable or were lost by a failed fsync.
    """

    __slots__ = ("changes", "settled")

    def __init__(self) -> None:
        self.changes: list[C] = []
        self.settled = 0

    @property
    def mark(self) -> int:
        """Return the number of changes so far. An fsync that begins now covers them."""
        return self.settled + len(self.changes)

    def take(self, mark: int) -> list[C]:
        """Remove and return the changes before the mark, and count them as settled."""
        count = max(0, mark - self.settled)
        taken, self.changes = self.changes[:count], self.changes[count:]
        self.settled += len(taken)
        return taken


class Inode:
    """A file. `content` is the content that processes see, `modified_ms` the time of its last change.

    The time is no change of the volume of its own: it is not recorded, and a power loss keeps it.
    """

    __slots__ = ("content", "durable", "modified_ms", "number", "unsynced")

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number, self.modified_ms = number, 0
        self.content, self.durable = bytearray(content), bytearray(content)
        self.unsynced: Unsynced[Write | Truncate] = Unsynced()

    def change(self, change: Write | Truncate) -> None:
        """Apply a change, visible to processes at once."""
        change.apply(self.content)
        self.unsynced.changes.append(change)


class Directory:
    """A directory.

    A relinking changes several names at once: it maps each name to a node, or to None if the name is removed.
    """

    __slots__ = ("durable", "entries", "unsynced")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.unsynced: Unsynced[Relinking] = Unsynced()

    def change(self, relinking: Relinking) -> None:
        """Apply a relinking, visible to processes at once."""
        relink(self.entries, relinking)
        self.unsynced.changes.append(relinking)


Node = Inode | Directory
Relinking = tuple[tuple[str, Node | None], ...]
DiskCall = tuple[str, tuple[object, ...]]
"""A recorded change: the name of a method of Volume, and its arguments."""


def relink(entries: dict[str, Node], relinking: Relinking) -> None:
    """Apply one change of names."""
    for name, node in relinking:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Volume:
    """A simulated file system. `noted` is called after every change, with the change."""

    def __init__(self, noted: Callable[[str, tuple[object, ...]], None] | None = None) -> None:
        self.root = Directory()
        self.files: list[Inode] = []
        self.locks: set[str] = set()
        self.noted = noted

    def find(self, path: str) -> Node:
        """Return the node at a path. Raise FileNotFoundError or NotADirectoryError."""
        node: Node = self.root
        for name in path.split("/") if path else ():
            if not isinstance(node, Directory):
                raise failure(errno.ENOTDIR, path)
            found = node.entries.get(name)
            if found is None:
                raise failure(errno.ENOENT, path)
            node = found
        return node

    def find_directory(self, path: str) -> Directory:
        """Return the directory at a path, with the errors of `find`."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise failure(errno.ENOTDIR, path)
        return node

    def files_below(self, directories: Iterable[str]) -> Iterator[Inode]:
        """Yield the files in these directories, sorted by name. Paths that are no directory are skipped."""
        for path in directories:
            node = self.root.entries.get(path)
            if isinstance(node, Directory):
                yield from (each for _, each in sorted(node.entries.items()) if isinstance(each, Inode))

    def used_bytes(self) -> int:
        """Return the bytes of all files that have a name."""
        return _used_bytes(self.root)

    # ---- changes

    def create(self, path: str) -> int:
        """Create an empty file and return its number."""
        directory, name = self._place(path)
        inode = self.new_inode()
        directory.change(((name, inode),))
        self._note("create", path)
        return inode.number

    def new_inode(self, content: bytes = b"") -> Inode:
        """Create a file that has no name yet."""
        inode = Inode(len(self.files), content)
        self.files.append(inode)
        return inode

    def write(self, number: int, offset: int, data: bytes) -> None:
        """Write bytes to a file, in the page cache only."""
        self.files[number].change(Write(offset, data))
        self._note("write", number, offset, data)

    def truncate(self, number: int, size: int) -> None:
        """Truncate a file, in the page cache only."""
        self.files[number].change(Truncate(size))
        self._note("truncate", number, size)

    def sync(self, number: int, mark: int) -> None:
        """Fsync a file: make all its changes before the mark durable."""
        inode = self.files[number]
        for change in inode.unsynced.take(mark):
            change.apply(inode.durable)
        self._note("sync", number, mark)

    def fail_sync(self, number: int, mark: int) -> None:
        """Drop the changes of a failed fsync. Readers still see them, but they never become durable."""
        self.files[number].unsynced.take(mark)
        self._note("fail_sync", number, mark)

    def flip(self, number: int, byte: int, bit: int) -> None:
        """Flip one bit of the durable content."""
        inode = self.files[number]
        for content in (inode.durable, inode.content):
            if byte < len(content):
                content[byte] ^= 1 << bit
        self._note("flip", number, byte, bit)

    def make_directory(self, path: str) -> None:
        """Create a directory. Raise FileExistsError."""
        directory, name = self._place(path)
        if name in directory.entries:
            raise failure(errno.EEXIST, path)
        directory.change(((name, Directory()),))
        self._note("make_directory", path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file within its directory. It replaces a file or an empty directory."""
        source, old_name = self._place(old)
        target, new_name = self._place(new)
        assert source is target, f"{old} and {new} are in different directories"
        node = self.find(old)
        replaced = target.entries.get(new_name)
        if replaced is node:
            return
        if replaced is not None:
            _check_replaceable(node, replaced, new)
        target.change(((old_name, None), (new_name, node)))
        self._note("rename", old, new)

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""
        directory, name = self._place(path)
        node = self.find(path)
        if isinstance(node, Directory) and node.entries:
            raise failure(errno.ENOTEMPTY, path)
        directory.change(((name, None),))
        self._note("remove", path)

    def sync_directory(self, path: str, mark: int) -> None:
        """Fsync a directory: make all changes of its names before the mark durable."""
        directory = self.find_directory(path)
        for relinking in directory.unsynced.take(mark):
            relink(directory.durable, relinking)
        self._note("sync_directory", path, mark)

    def play(self, call: DiskCall) -> None:
        """Repeat one recorded change."""
        name, args = call
        getattr(self, name)(*args)

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self.find_directory(parent), name

    def _note(self, name: str, *args: object) -> None:
        if self.noted is not None:
            self.noted(name, args)


def failure(code: int, path: str) -> OSError:
    """Return the kernel's OSError for a path."""
    return OSError(code, os.strerror(code), path)


def _check_replaceable(node: Node, replaced: Node, path: str) -> None:
    if isinstance(replaced, Directory):
        if not isinstance(node, Directory):
            raise failure(errno.EISDIR, path)
        if replaced.entries:
            raise failure(errno.ENOTEMPTY, path)
    elif isinstance(node, Directory):
        raise failure(errno.ENOTDIR, path)


def _used_bytes(node: Node) -> int:
    if isinstance(node, Inode):
        return len(node.content)
    return sum(map(_used_bytes, node.entries.values()))
