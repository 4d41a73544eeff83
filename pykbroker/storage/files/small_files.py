"""Files that are replaced as a whole: the new content is written to a temporary file, which is then renamed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pykbroker.storage.files.reading import read_file
from pykbroker.world.disk import Disk, File

logger = logging.getLogger(__name__)
SIZE_MAX = 64 << 20


async def read_whole(disk: Disk, path: str) -> bytes:
    """Return the content of a file, up to its first SIZE_MAX bytes. Raise FileNotFoundError if the file is missing."""
    file = disk.open(path)
    try:
        return bytes(await read_file(file, 0, min(file.size, SIZE_MAX)))
    finally:
        file.close()


async def read_disposable(disk: Disk, path: str) -> bytes | None:
    """Return the content of a file that can be rebuilt.

    Return None if the file is missing or this process may not read it.
    """
    try:
        return await read_whole(disk, path)
    except FileNotFoundError:
        return None
    except PermissionError as refusal:
        logger.warning("%s/%s is not readable for this process and is ignored: %s", disk.path, path, refusal.strerror)
        return None


def _written(disk: Disk, path: str, data: bytes) -> File:
    """Write the file `path` with exactly this content, and return the open file."""
    file = disk.open(path, create=True)
    try:
        if file.size:
            file.truncate(0)
        file.append(data)
    except BaseException:
        file.close()
        raise
    return file


def replace(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file that can be rebuilt, atomically but not durably."""
    file = _written(disk, path + ".tmp", data)
    file.close()
    disk.rename(path + ".tmp", path)


def write_all(disk: Disk, files: Mapping[str, bytes]) -> None:
    """Write files that can be rebuilt, by path, neither atomically nor durably.

    It costs half of `replace` if a file exists: to create one takes 0.3 ms on ext4. If a write fails, all of the files
    are removed before OSError is raised: Kafka takes an empty time index beside an offset index for complete.
    """
    try:
        for path, data in files.items():
            _written(disk, path, data).close()
    except OSError:
        for path in files:
            if disk.exists(path):
                disk.remove(path)
        raise


async def replace_durably(disk: Disk, path: str, data: bytes) -> None:
    """Replace a file so that after a crash it has either the old or the new content."""
    file = _written(disk, path + ".tmp", data)
    try:
        await file.sync()
    finally:
        file.close()
    disk.rename(path + ".tmp", path)
    await disk.sync_directory(path.rpartition("/")[0])


@contextmanager
def warned(subject: str) -> Iterator[None]:
    """Log a warning instead of raising an OSError, for one or several files that can be rebuilt."""
    try:
        yield
    except OSError as failure:
        logger.warning("%s could not be written and will be rebuilt: %s", subject, failure)
