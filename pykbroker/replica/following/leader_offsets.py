"""The offsets of a leader's log, for a follower whose log end offset is outside of it."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import CutLog, Restart, after_range
from pykbroker.replica.following.followed import Followed
from pykbroker.replica.following.leader_link import LeaderLink
from wire.error_codes import error_code
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.sentinels import EARLIEST_LOCAL_TIMESTAMP, LATEST_TIMESTAMP


async def after_range_of(link: LeaderLink, node_id: int, followed: Followed) -> CutLog | Restart | None:
    """Return what to do after OFFSET_OUT_OF_RANGE, or None to fetch again at the own log end.

    Raise ApiError with the leader's error.
    """
    latest = await _offset(link, node_id, followed, LATEST_TIMESTAMP)
    log = followed.partition.log
    if log is None or latest < log.log_end_offset:
        return CutLog(latest)
    # The start of a leader's local log: Kafka may have moved older segments to a remote storage (KIP-405).
    return after_range(latest, await _offset(link, node_id, followed, EARLIEST_LOCAL_TIMESTAMP), log.log_end_offset)


async def _offset(link: LeaderLink, node_id: int, followed: Followed, timestamp: int) -> int:
    topic, index = followed.partition.key
    request = ListOffsetsRequest(
        replica_id=node_id,
        topics=[
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(index, followed.leader_epoch, timestamp)])
        ],
    )
    response = await link.ask(request)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise ApiError(error_code(answer.error_code))
    return int(answer.offset)
