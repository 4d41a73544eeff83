"""Groups of unmodified clients while `__consumer_offsets` has too few in-sync replicas, and afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.our_cluster import REPLICATED, SETTINGS, OurCluster
from tests.interop.raw_client import RawClient
from tests.interop.scenarios import eventually, eventually_equal
from tests.interop.test_mixed_groups import JavaMember
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

pytestmark = pytest.mark.timeout(120)
COUNT = 20
FACTORS = ("default.replication.factor=2", "offsets.topic.replication.factor=2", "offsets.topic.num.partitions=1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path, 2, [*SETTINGS, *REPLICATED, *FACTORS])
    try:
        yield running
    finally:
        running.kill()


def isr_sizes(admin: AdminClient) -> set[int]:
    """Return the sizes of the ISRs of `__consumer_offsets`."""
    partitions = admin.list_topics("__consumer_offsets", 10).topics["__consumer_offsets"].partitions
    return {len(partition.isrs) for partition in partitions.values()}


def test_a_java_consumer_survives_an_offsets_topic_below_its_min_isr(
    cluster: OurCluster, kafka_jars: Path, tmp_path: Path
) -> None:
    address = cluster.nodes[1].address
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1]])])["t"].result(10)
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce("t", b"%d" % number)
    assert producer.flush(20) == 0
    with RawClient(address) as client:
        client.call(FindCoordinatorResponse, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        eventually_equal(lambda: isr_sizes(admin), {2})
        cluster.nodes[2].kill()
        eventually_equal(lambda: isr_sizes(admin), {1})

        commit = OffsetCommitRequest(
            "raw", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
        )
        answered = client.call(OffsetCommitResponse, commit, 9).topics[0].partitions[0]
        assert answered.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

        def has_member() -> bool:
            (group,) = client.call(DescribeGroupsResponse, DescribeGroupsRequest(["g"]), 5).groups
            return bool(group.members)

        with closing(JavaMember(kafka_jars, tmp_path, address, "t", "g", "range")) as member:
            eventually(has_member)
            cluster.nodes[2].start()
            found: list[tuple[int, int]] = []

            def has_all() -> bool:
                found.extend(member.poll())
                return {offset for _, offset in found} == set(range(COUNT))

            eventually(has_all)
