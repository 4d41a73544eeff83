"""A fixture with a log directory on the real disk."""

from pathlib import Path

import pytest

from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.real_directory import RealDirectory


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(str(tmp_path), SystemOffLoop(), durable=False)


@pytest.fixture
def real_dir(tmp_path: Path) -> RealDirectory:
    return RealDirectory(tmp_path)
