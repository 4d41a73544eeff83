"""The sentences of `pykbroker produce`, the lines that it reads, and the partitions that it refuses."""

from __future__ import annotations

import os
from functools import partial

import pytest

from pykbroker.cli.records.existing_partition import require_partition
from pykbroker.cli.records.produce import chunks, counted
from pykbroker.client.admin.admin import Admin
from pykbroker.core.producer.errors import UnknownPartition
from pykbroker.producer import Producer
from tests.unit.cli.requests import prepare


@pytest.mark.parametrize(
    ("records", "expected"),
    [(0, "0 records were"), (1, "1 record was"), (2, "2 records were"), (1000, "1000 records were")],
)
def test_a_number_of_records_agrees_with_its_verb(records: int, expected: str) -> None:
    assert counted(records) == expected


def test_a_partition_is_refused_unless_it_was_added_meanwhile(broker: str) -> None:
    async def require(admin: Admin) -> None:
        async with Producer(bootstrap_servers=broker) as producer:
            required = partial(require_partition, producer, {"bootstrap_servers": broker}, "grown")
            await required(0)
            for missing in (1, -1):
                with pytest.raises(UnknownPartition, match=f"'grown' has 1 partition and no partition {missing}$"):
                    await required(missing)
            await admin.create_partitions("grown", 2)
            await required(1)
            with pytest.raises(UnknownPartition, match="'grown' has 2 partitions and no partition 2$"):
                await required(2)

    prepare(broker, require)


def test_lines_of_a_pipe_are_read_when_they_are_written() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as target:
        found = chunks(source)
        target.write(b"one\r\ntwo\nth")
        assert next(found) == (1, [b"one", b"two"])
        target.write(b"ree\n\nfour")
        assert next(found) == (3, [b"three", b""])
        target.close()
        assert list(found) == [(5, [b"four"])]
