"""Tests of the files that a clean stop of a log directory writes for Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.small_files import write_all
from tests.unit.storage.logs import SMALL, filled
from tests.unit.storage.real_directory import RealDirectory

T = TypeVar("T")


@pytest.mark.parametrize("complete", [True, False])
async def test_a_clean_stop_writes_indexes_off_the_loop_unless_no_data_is_kept(tmp_path: Path, complete: bool) -> None:
    called: list[Callable[..., object]] = []

    async def off_loop(function: Callable[..., T], *args: object) -> T:
        called.append(function)
        return function(*args)

    directory = await RealDirectory(tmp_path).open(off_loop)
    for partition, count in enumerate((0, 1)):
        filled(await directory.create_log(TopicPartition("t", partition), bytes(range(16)), SMALL), count)
    assert await directory.close(high_watermarks={}, complete=complete) is None
    assert called.count(write_all) == 2 * complete
    names = [name for partition in range(2) for name in directory._disk.names(f"t-{partition}")]
    assert [sum(name.endswith(suffix) for name in names) for suffix in (".log", ".index")] == [2, 2 * complete]
