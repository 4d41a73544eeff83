"""Tests of an observer's copy of the metadata log: it is fetched again where it lacks records."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.errors import StartError
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.metadata_log import open_metadata_log
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.storage.files.checkpoints import EPOCHS
from tests.unit.quorum.logs import RULES, disk_at
from tests.unit.storage.logs import batch


async def test_a_copy_that_began_at_a_snapshot_is_opened_again(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    log = await open_metadata_log(disk, InlineOffLoop(), RULES, is_copy=True)
    log.append_stored(batch(leader_epoch=1))
    await log.flush()
    await log.truncate_fully_and_start_at(50)
    log.append_stored(batch(base_offset=50, leader_epoch=2))
    await log.flush()
    again = await open_metadata_log(disk, InlineOffLoop(), RULES)
    assert (again.log_start_offset, again.log_end_offset, again.epochs.entries) == (50, 51, ((2, 50),))


async def test_only_a_copy_may_lack_its_begin(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    log = await open_metadata_log(disk, InlineOffLoop(), RULES)
    await log.truncate_fully_and_start_at(50)
    log.append_stored(batch(base_offset=50, leader_epoch=2))
    await log.flush()
    (tmp_path / METADATA_DIRECTORY / EPOCHS).write_bytes(b"0\n1\n1 0\n")
    with pytest.raises(StartError, match="its leader epochs at 0"):
        await open_metadata_log(disk, InlineOffLoop(), RULES)
    copy = await open_metadata_log(disk, InlineOffLoop(), RULES, is_copy=True)
    assert (copy.log_start_offset, copy.log_end_offset, copy.epochs.entries) == (50, 51, ((2, 50),))
