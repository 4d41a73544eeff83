"""Steps on the file system of this machine. Each step is atomic and durable."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
"""The flags of Linux's renameat2 for a rename that replaces nothing, and for an exchange."""
RENAMES = {"renameat2": (-100, {}), "renameatx_np": (-2, {RENAME_NOREPLACE: 4})}
"""The call of Linux and that of macOS -> its AT_FDCWD, and its flags where they are other ones: RENAME_EXCL is 4."""
NO_EXCHANGE = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV))
"""The errors of a file system that cannot exchange directories."""
NO_LINK = frozenset((errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV, errno.EMLINK))
"""The errors of a file system that cannot give a file a second name."""


def temporary(path: Path) -> Path:
    """Return a name beside a file that no other process has."""
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")


def rename(path: Path, target: Path, flag: int) -> None:
    """Call renameat2 of Linux, or renameatx_np of macOS. Raise OSError with ENOSYS without them."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name, (here, flags) in RENAMES.items():
        if (call := getattr(libc, name, None)) is not None:
            if call(here, os.fsencode(path), here, os.fsencode(target), flags.get(flag, flag)):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
            return
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(path))


def rename_new(path: Path, target: Path) -> None:
    """Rename a file. Raise FileExistsError if the target exists, which stays as it is.

    Where a file system has neither links nor such a rename, as some of FUSE, only the lock of a run keeps others out.
    """
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        try:
            rename(path, target, RENAME_NOREPLACE)
        except OSError as refusal:
            if refusal.errno not in NO_EXCHANGE:
                raise
            if target.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            path.rename(target)
    else:
        path.unlink()


def replace(path: Path, name: Path, content: bytes, place: Callable[[Path, Path], object] = Path.replace) -> None:
    """Write a file under a temporary name, and rename it once it is durable."""
    try:
        with name.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, name)
        place(name, path)
    except OSError:
        name.unlink(missing_ok=True)
        raise
    sync(path.parent)


def make(path: Path) -> list[Path]:
    """Make a directory and all missing ones above it, so that their names are durable. A failure leaves no new
    directory.

    Return the directories that were missing, the lowest one first.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        for each in missing:
            sync(each.parent)
    except BaseException:
        delete_empty(missing)
        raise
    return missing


def delete_empty(made: Iterable[Path]) -> None:
    """Delete directories that `make` has made, as far as they are empty."""
    for each in made:
        with suppress(OSError):
            each.rmdir()


def move_across(source: Path, target: Path) -> None:
    """Move a file to another file system. It appears there as a whole, and is durable before its source is deleted."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        shutil.copyfile(source, temporary)
        sync(temporary)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(target.parent)
    source.unlink()


def copy_mode(source: Path, target: Path) -> None:
    """Give a directory owner, group, mode and attributes of another one, as far as this process may set them."""
    status = source.stat()
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):  # a member may set its group, but no owner
        with suppress(PermissionError):
            os.chown(target, owner, group)
    shutil.copystat(source, target)
    os.utime(target)


def sync(path: Path) -> None:
    """Make the content of a file or the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
