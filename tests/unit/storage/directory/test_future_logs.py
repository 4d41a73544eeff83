"""Tests of the copy of a log that replaces the log in another log directory."""

from __future__ import annotations

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemFile
from tests.unit.storage.logs import NOW, batch
from tests.unit.storage.real_directory import RealDirectory

TOPIC_ID = bytes(range(16))


async def test_a_copy_is_durable_before_it_replaces_the_log_on_another_device(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, key = list[str](), TopicPartition("topic", 0)

    def noting(name: str) -> None:
        async def note(file: SystemFile) -> None:
            if file.path.endswith(".log"):
                calls.append(name)

        monkeypatch.setattr(SystemFile, name, note)

    noting("sync")
    noting("barrier")
    directory = await real_dir.open()
    copy = await directory.create_copy(key, TOPIC_ID, LogConfig(), 0)
    copy.appender.append(batch(), 0, NOW)
    await copy.flush()
    log = directory.accept(key, TOPIC_ID)
    log.appender.append(batch(), 0, NOW)
    await log.flush()
    assert calls == ["sync", "barrier"]
