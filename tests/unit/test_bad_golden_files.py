"""Tests of damage to files of transactions, internal topics and interrupted work, in a directory that Kafka wrote.

As in `test_bad_files`, a file that can be rebuilt is rebuilt; otherwise its partition is offline. A coordinator whose
log is offline is unavailable, and never answers as if it had no groups or transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from pykbroker.storage.files import lost_writes
from tests.unit.apis.conftest import Client
from tests.unit.directories import consume, serving
from tests.unit.storage.golden import expected, unpack
from tests.unit.test_bad_files import cut, empty, flipped, longer, missing, served
from tests.unit.test_golden_directories import committed
from wire.error_codes import ErrorCode
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

HARMS = (missing, empty, cut, flipped, longer)
UNAVAILABLE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR)
UNIQUE = "0" * 31 + "1"


def each(directory: Path, pattern: str) -> list[Path]:
    """Return the files that match the pattern; assert that there is at least one."""
    found = sorted(directory.glob(pattern))
    assert found
    return found


async def check_topics(client: Client, *may_be_offline: str) -> None:
    """Check that every topic is served as Kafka served it, except topics that may be offline."""
    for topic, facts in expected("clean").items():
        for partition, isolations in facts["p"].items():
            for isolation, wanted in isolations.items():
                is_committed = isolation == "read_committed"
                if topic not in may_be_offline or await served(client, topic, int(partition)) is not None:
                    found = await consume(client, topic, int(partition), committed=is_committed)
                    assert found == wanted, f"{topic}-{partition}, {isolation}"


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    "pattern",
    [
        "txn-0/*.txnindex",
        "txn-0/*.snapshot",
        "txn-0/leader-epoch-checkpoint",
        "compacted-0/*.index",
        "compacted-0/*.timeindex",
        "delrec-0/*.snapshot",
    ],
)
async def test_damaged_files_of_transactions_and_compaction_are_rebuilt(
    tmp_path: Path, pattern: str, harm: Callable[[Path], None]
) -> None:
    directory = unpack("clean", tmp_path)
    for path in each(directory, pattern):
        harm(path)
    async with serving(directory) as client:
        await check_topics(client)


@pytest.mark.parametrize("harm", HARMS)
async def test_a_log_with_transactions_is_served_completely_or_is_offline(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    directory = unpack("clean", tmp_path)
    harm(each(directory, "txn-0/*.log")[-1])
    async with serving(directory) as client:
        await check_topics(client, "txn")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
async def test_a_coordinator_with_a_damaged_log_is_unavailable_or_complete(
    tmp_path: Path, suffix: str, harm: Callable[[Path], None]
) -> None:
    directory = unpack("clean", tmp_path)
    for path in each(directory, f"__*-[0-9]*/*{suffix}"):
        if not path.parent.name.startswith("__cluster_metadata") and path.stat().st_size:
            harm(path)
    async with serving(directory) as client:
        await check_topics(client)
        groups = await check_groups(client)
        transactions = await check_transactions(client)
    if suffix != ".log":
        assert (groups, transactions) == (len(expected("clean", "groups")), len(expected("clean", "transactions")))


async def check_groups(client: Client) -> int:
    """Return the number of groups that are as Kafka recorded them; assert that all other coordinators
    are unavailable.
    """
    known = 0
    for name, facts in expected("clean", "groups").items():
        found = await answered(client, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None)]), 9)
        (group,) = found.groups
        if group.error_code:
            assert group.error_code in UNAVAILABLE
            continue
        known += 1
        assert facts["offsets"] == {
            f"{topic.name}-{one.partition_index}": committed(one) for topic in group.topics for one in topic.partitions
        }
    return known


async def check_transactions(client: Client) -> int:
    """Return the number of transactional ids that are as recorded; assert that all other coordinators
    are unavailable.
    """
    known = 0
    for name, wanted in expected("clean", "transactions").items():
        (one,) = (await answered(client, DescribeTransactionsRequest([name]), 0)).transaction_states
        if one.error_code:
            assert one.error_code in UNAVAILABLE
            continue
        known += 1
        assert f"{one.producer_id} {one.transaction_state}" == wanted
    return known


async def answered(client: Client, request: OffsetFetchRequest | DescribeTransactionsRequest, version: int):
    """Return the response once the coordinator has loaded its log."""
    with trio.fail_after(20):
        while True:
            response = await client.call(request, version)
            (one,) = response.groups if isinstance(request, OffsetFetchRequest) else response.transaction_states
            if one.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return response


def an_interrupted_compaction(directory: Path) -> None:
    """Leave a compacted file that was not swapped in, and a damaged file whose swap had begun."""
    for path in each(directory, "compacted-0/*.log"):
        path.with_name(f"{path.name}.cleaned").write_bytes(path.read_bytes()[:-1])
    first = each(directory, "rolls-0/*.log")[0]
    first.with_name(f"{first.name}.swap").write_bytes(first.read_bytes()[:-1])


def deleted_files(directory: Path) -> None:
    for path in each(directory, "rolls-0/*.log"):
        path.with_name(f"{path.name}.deleted").write_bytes(b"x")
        path.with_name(f"{path.name[:20]}.snapshot.deleted").write_bytes(b"x")


def incomplete_files(directory: Path) -> None:
    for path in (*each(directory, "*/leader-epoch-checkpoint"), *each(directory, "*-checkpoint")):
        path.with_name(f"{path.name}.tmp").write_bytes(b"x")
    (directory / "__cluster_metadata-0" / f"{7:020d}-{1:010d}.checkpoint.part").write_bytes(b"x")


def leftover_directories(directory: Path) -> None:
    """Leave the directories of a deleted log, of a stray log, and of an incomplete copy of a log."""
    for why in ("delete", "stray", "future"):
        away = directory / f"rolls-0.{UNIQUE}-{why}"
        away.mkdir()
        (away / f"{0:020d}.log").write_bytes(b"garbage")
        (away / "partition.metadata").write_bytes(b"")


def a_note_of_a_failed_fsync(directory: Path) -> None:
    (directory / lost_writes.NAME).touch()


LEFTOVERS = (an_interrupted_compaction, deleted_files, incomplete_files, leftover_directories, a_note_of_a_failed_fsync)


@pytest.mark.parametrize("leave", LEFTOVERS)
@pytest.mark.parametrize("kind", ["stopped", "killed"])
async def test_the_remains_of_interrupted_work_do_not_affect_served_records(
    tmp_path: Path, kind: str, leave: Callable[[Path], None]
) -> None:
    directory = unpack("clean", tmp_path)
    leave(directory)
    if kind == "killed":
        (directory / ".kafka_cleanshutdown").unlink()
    for _ in ("first life", "second life"):
        async with serving(directory) as client:
            await check_topics(client)
            assert await check_groups(client) == len(expected("clean", "groups"))
            assert await check_transactions(client) == len(expected("clean", "transactions"))
