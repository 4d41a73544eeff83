"""The command `pykbroker producers describe`, which prints the active producers of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import asking
from pykbroker.cli.completion import topic_names
from pykbroker.cli.parameters import PARTITION_FORM, partition
from pykbroker.cli.tables import Table, json_option

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from wire.messages.describe_producers import PartitionResponse

COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "last_sequence",
    "last_timestamp",
    "transaction_start_offset",
)


@click.group()
def producers() -> None:
    """Describe the producers of a running cluster."""


@producers.command()
@click.argument(
    "partitions", type=partition, nargs=-1, required=True, metavar=f"{PARTITION_FORM}...", shell_complete=topic_names
)
@json_option
@asking
async def describe(admin: Admin, partitions: Sequence[tuple[str, int | None]], as_json: bool) -> None:
    """Describe the active producers of partitions, or of all partitions of a topic.

    A producer is active for as long as the partition keeps its sequence numbers.
    """
    from pykbroker.core.errors import ApiError

    rows, refusals = [], []
    for topic, index in dict.fromkeys(partitions):
        try:
            rows += await described(admin, topic, index)
        except ApiError as error:
            refusals.append(str(error))
    Table(COLUMNS, rows).show(as_json=as_json, refusals=refusals)


async def described(admin: Admin, topic: str, index: int | None) -> list[tuple[Any, ...]]:
    """Return a row for each producer of this partition, or with None of all partitions. ApiError: a leader refuses."""
    from pykbroker.client.admin.admin import check
    from pykbroker.client.leaders import Leaders
    from wire.error_codes import ErrorCode
    from wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    found = []
    with closing(Leaders(admin)) as leaders:
        for leader, led in (await leaders.partitions(topic)).items():
            indexes = [each for each in led if index in (None, each)]
            if indexes:
                answer = await leader.ask(DescribeProducersRequest([TopicRequest(topic, indexes)]))
                found += [part for answered in answer.topics for part in answered.partitions]
    if index is not None and not found:
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' has no partition {index}")
    for part in found:
        check(part.error_code, part.error_message or f"producers of {topic}-{part.partition_index}")
    return [row for part in sorted(found, key=lambda part: part.partition_index) for row in rows_of(topic, part)]


def rows_of(topic: str, part: PartitionResponse) -> list[tuple[Any, ...]]:
    """Return a row for each producer of a partition, by producer id. A cell is None where Kafka has -1."""
    found = []
    for each in sorted(part.active_producers, key=lambda each: each.producer_id):
        facts = each.coordinator_epoch, each.last_sequence, each.last_timestamp, each.current_txn_start_offset
        known = [None if fact < 0 else fact for fact in facts]
        found.append((topic, part.partition_index, each.producer_id, each.producer_epoch, *known))
    return found
