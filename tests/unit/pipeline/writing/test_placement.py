"""The numbers with which Spark places each source partition on a task of its own."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.writing.placement import spark_hash, task_keys


@pytest.mark.parametrize(("number", "found"), [(0, 933211791), (1, -559580957), (42, 29417773)])
def test_the_hash_is_that_of_spark(number: int, found: int) -> None:
    """The values are those of `SELECT hash(number)`."""
    assert spark_hash(number) == found


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 200])
def test_each_task_has_a_number(tasks: int) -> None:
    assert [spark_hash(key) % tasks for key in task_keys(tasks)] == list(range(tasks))
