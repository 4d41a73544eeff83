"""Elections of leaders that an operator requests (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykbroker.client.admin.admin import TIMEOUT_MS, Admin, check, refusal
from pykbroker.client.errors import UnsupportedVersion
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.error_codes import ErrorCode
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
UNCLEAN_VERSION_FIRST = 1
REASONS: Mapping[int, str] = {
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred replica is not in the ISR: start its broker, or wait until"
    " it has caught up",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica is alive: start one of its brokers",
}
"""Sentences that say what to do after an election failed."""


async def elect_leaders(
    admin: Admin, partitions: Collection[TopicPartition] | None, *, unclean: bool
) -> dict[TopicPartition, ApiError | None]:
    """Elect the preferred leaders of partitions, or with `unclean` any live replica as the leader of each without one.

    None stands for all partitions of the cluster. Return the failure of each partition, or None; a partition that needs
    no election fails with ELECTION_NOT_NEEDED. Raise ApiError if the request is refused as a whole.
    """
    version = admin.connection.newest_version(ElectLeadersRequest.key)
    if unclean and version < UNCLEAN_VERSION_FIRST:
        raise UnsupportedVersion("the broker has no unclean elections: it is older than Apache Kafka 2.4")
    topics = [TopicPartitions(*each) for each in indexes_by_topic(partitions or ()).items()]
    request = ElectLeadersRequest(UNCLEAN if unclean else PREFERRED, None if partitions is None else topics, TIMEOUT_MS)
    answer = await admin.connection.ask(request, version)
    check(answer.error_code, "the election")
    return {
        partition: refusal(
            partition, part.error_code, REASONS.get(part.error_code) or part.error_message or "no leader was elected"
        )
        for topic in answer.replica_election_results
        for part in topic.partition_result
        for partition in [TopicPartition(topic.topic, part.partition_id)]
    }
