"""A file system: the content that processes see, the durable content, and the unsynced changes in between.

Each change is one call with plain arguments that names files by number. A list of calls is therefore a recording:
replayed on an equal volume, it makes an equal volume. Paths are relative, with "/"; "" is the root.
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
    """A cut of a file at `size`."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Cut the content; never lengthen it."""
        del content[self.size :]


class Unsynced(Generic[C]):
    """The changes since the last sync, oldest first. `settled` counts earlier changes: durable, or lost by a sync."""

    __slots__ = ("changes", "settled")

    def __init__(self) -> None:
        self.changes: list[C] = []
        self.settled = 0

    @property
    def mark(self) -> int:
        """Return the number of changes ever made, which a sync that begins now covers."""
        return self.settled + len(self.changes)

    def take(self, mark: int) -> list[C]:
        """Return the changes before the mark and count them as settled."""
        count = max(0, mark - self.settled)
        taken, self.changes = self.changes[:count], self.changes[count:]
        self.settled += len(taken)
        return taken


class Inode:
    """A file: `content` is what processes see."""

    __slots__ = ("content", "durable", "number", "unsynced")

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.content, self.durable = bytearray(content), bytearray(content)
        self.unsynced: Unsynced[Write | Truncate] = Unsynced()

    def change(self, change: Write | Truncate) -> None:
        """Apply a change, visible to processes at once."""
        change.apply(self.content)
        self.unsynced.changes.append(change)


class Directory:
    """Names. A relinking changes several names at once: each to a node, or to None where it goes."""

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
"""The name of a method of Volume, and its arguments."""


def relink(entries: dict[str, Node], relinking: Relinking) -> None:
    """Apply one change of names."""
    for name, node in relinking:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Volume:
    """A file system. `noted` is called with every change after it was made."""

    def __init__(self, noted: Callable[[str, tuple[object, ...]], None] | None = None) -> None:
        self.root = Directory()
        self.files: list[Inode] = []
        self.locks: set[str] = set()
        self.noted = noted

    def find(self, path: str) -> Node:
        """Return the node at a path. FileNotFoundError, NotADirectoryError."""
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
        """Yield the files of these directories by name; skip paths that are no directory."""
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
        """Write into the page cache."""
        self.files[number].change(Write(offset, data))
        self._note("write", number, offset, data)

    def truncate(self, number: int, size: int) -> None:
        """Truncate in the page cache."""
        self.files[number].change(Truncate(size))
        self._note("truncate", number, size)

    def sync(self, number: int, mark: int) -> None:
        """Make all changes before the mark durable."""
        inode = self.files[number]
        for change in inode.unsynced.take(mark):
            change.apply(inode.durable)
        self._note("sync", number, mark)

    def fail_sync(self, number: int, mark: int) -> None:
        """Drop the changes of a failed sync: readers still see them, but the device never gets them."""
        self.files[number].unsynced.take(mark)
        self._note("fail_sync", number, mark)

    def flip(self, number: int, byte: int, bit: int) -> None:
        """Flip one durable bit."""
        inode = self.files[number]
        for content in (inode.durable, inode.content):
            if byte < len(content):
                content[byte] ^= 1 << bit
        self._note("flip", number, byte, bit)

    def make_directory(self, path: str) -> None:
        """Create a directory. FileExistsError."""
        directory, name = self._place(path)
        if name in directory.entries:
            raise failure(errno.EEXIST, path)
        directory.change(((name, Directory()),))
        self._note("make_directory", path)

    def rename(self, old: str, new: str) -> None:
        """Rename within one directory, replacing a file or an empty directory."""
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
        """Make all names durable that changed in the directory before the mark."""
        directory = self.find_directory(path)
        for relinking in directory.unsynced.take(mark):
            relink(directory.durable, relinking)
        self._note("sync_directory", path, mark)

    def play(self, call: DiskCall) -> None:
        """Make one recorded change."""
        name, args = call
        getattr(self, name)(*args)

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self.find_directory(parent), name

    def _note(self, name: str, *args: object) -> None:
        if self.noted is not None:
            self.noted(name, args)


def failure(code: int, path: str) -> OSError:
    """Return the kernel's error for a path."""
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
