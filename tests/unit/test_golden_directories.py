"""Tests of brokers on log directories that Apache Kafka wrote: they serve everything that Kafka served."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.core.ids import id_text
from tests.unit.apis.conftest import Client
from tests.unit.directories import consume, serving
from tests.unit.storage.golden import expected, unpack
from wire.error_codes import ErrorCode
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.metadata import MetadataRequest
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponsePartitions


@pytest.mark.parametrize("kind", ["clean", "unclean"])
async def test_all_records_that_kafka_served_are_served(tmp_path: Path, kind: str) -> None:
    directory = unpack(kind, tmp_path)
    for life in ("first", "second"):
        async with serving(directory) as client:
            topics = {topic.name: topic for topic in (await client.call(MetadataRequest(topics=None), 12)).topics}
            for topic, facts in expected(kind).items():
                assert id_text(topics[topic].topic_id) == facts["id"]
                assert len(topics[topic].partitions) == facts["partitions"]
                for partition, isolations in facts["p"].items():
                    for isolation, wanted in isolations.items():
                        found = await consume(client, topic, int(partition), committed=isolation == "read_committed")
                        assert found == wanted, f"{topic}-{partition}, {isolation}, {life} life"


@pytest.mark.parametrize("kind", ["clean", "unclean"])
async def test_groups_and_their_committed_offsets_are_loaded(tmp_path: Path, kind: str) -> None:
    directory = unpack(kind, tmp_path)
    for _ in ("first life", "second life"):
        async with serving(directory) as client:
            assert await groups(client) == expected(kind, "groups")


async def groups(client: Client) -> dict[str, Any]:
    """Return each group with its type and offsets, in the format of the recorded file."""
    with trio.fail_after(10):
        while (listed := await client.call(ListGroupsRequest(), 5)).error_code:
            assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked = [OffsetFetchRequestGroup(group.group_id, topics=None) for group in listed.groups]
    fetched = (await client.call(OffsetFetchRequest(groups=asked), 9)).groups
    return {
        group.group_id: {
            "type": group.group_type.capitalize(),
            "offsets": {
                f"{topic.name}-{one.partition_index}": committed(one)
                for topic in offsets.topics
                for one in topic.partitions
            },
        }
        for group, offsets in zip(listed.groups, fetched, strict=True)
    }


def committed(one: OffsetFetchResponsePartitions) -> str:
    """Return the committed offset of a partition, in the format of the recorded file."""
    epoch = one.committed_leader_epoch if one.committed_leader_epoch >= 0 else "-"
    return f"{one.committed_offset}|{epoch}|{one.metadata}"


@pytest.mark.parametrize("kind", ["clean", "unclean"])
async def test_transactions_have_the_state_in_which_kafka_left_them(tmp_path: Path, kind: str) -> None:
    directory, wanted = unpack(kind, tmp_path), expected(kind, "transactions")
    for _ in ("first life", "second life"):
        async with serving(directory) as client:
            assert await transactions_of(client, wanted) == wanted


async def transactions_of(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Map each transactional id to its producer id and state, once its coordinator has loaded its log."""
    asked = DescribeTransactionsRequest(list(names))
    while True:
        found = (await client.call(asked, 0)).transaction_states
        if all(one.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for one in found):
            return {one.transactional_id: f"{one.producer_id} {one.transaction_state}" for one in found}
