"""A log directory of this machine."""

from pathlib import Path

import pytest

from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(str(tmp_path), SystemOffLoop(), durable=False)
