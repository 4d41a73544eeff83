"""The opening of the metadata log. Unlike other logs it is recovered at every start, even after a clean shutdown."""

from __future__ import annotations

import logging
from functools import partial

from pykbroker.core.errors import StartError
from pykbroker.core.ids import UNASSIGNED
from pykbroker.quorum.journal import BATCH_BYTES_MAX, METADATA_DIRECTORY
from pykbroker.quorum.quorum_state import read_state
from pykbroker.quorum.rules import LogRules
from pykbroker.storage.files.checkpoints import EPOCHS
from pykbroker.storage.files.errors import CorruptLog, LacksBegin
from pykbroker.storage.files.partition_directory import METADATA, encode_metadata
from pykbroker.storage.files.small_files import replace_durably
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import Disk
from pykbroker.world.off_loop import OffLoop

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID = UNASSIGNED


async def open_metadata_log(disk: Disk, off_loop: OffLoop, rules: LogRules, *, is_copy: bool = False) -> Log:
    """Open the log and truncate a torn tail. Raise StartError if the log is damaged below its recovery point.

    If `is_copy`, the log is an observer's, and may lack its first segments: the observer begins the log anew at its
    newest snapshot then, and fetches what it lacks.
    """
    if not disk.exists(METADATA_DIRECTORY):
        disk.make_directory(METADATA_DIRECTORY)
        await disk.sync_directory("")
    if not disk.exists(f"{METADATA_DIRECTORY}/{METADATA}"):
        await replace_durably(disk, f"{METADATA_DIRECTORY}/{METADATA}", encode_metadata(METADATA_TOPIC_ID))
    state = await read_state(disk)
    synced = 0 if state is None else state.applied_offset
    opened = partial(Log.open, disk, METADATA_DIRECTORY, _config(rules), off_loop=off_loop, recovery_point=synced)
    try:
        try:
            return await opened()
        except LacksBegin as lack:
            if not is_copy:
                raise
            logger.warning("%s: %s; this copy begins there", disk.path, lack)
            disk.remove(f"{METADATA_DIRECTORY}/{EPOCHS}")  # which a start finds in the batches, too
            return await opened()
    except CorruptLog as error:
        raise StartError(
            f"{disk.path}: {error}. Restore {METADATA_DIRECTORY} from a copy; nothing was changed"
        ) from error


def _config(rules: LogRules) -> LogConfig:
    """Return the config of the metadata log. Its records do not expire by age: only a snapshot allows deleting them."""
    return LogConfig(
        flush_messages=1,
        max_message_bytes=BATCH_BYTES_MAX,
        retention_ms=-1,
        segment_bytes=rules.segment_bytes,
        segment_ms=rules.segment_ms,
    )
