"""The handlers for Produce, Fetch, and the requests about offsets and producers."""

from __future__ import annotations

from pykbroker.apis.records.delete_records import DeleteRecords
from pykbroker.apis.records.describe_producers import DescribeProducers
from pykbroker.apis.records.fetch.fetch import Fetch
from pykbroker.apis.records.fetch.locate import ReadRights
from pykbroker.apis.records.list_offsets import ListOffsets
from pykbroker.apis.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from pykbroker.apis.records.produce.admit import WriteRights
from pykbroker.apis.records.produce.produce import Produce
from pykbroker.broker.parts import Parts
from pykbroker.replica.leading.follower_fetches import FollowerFetches
from pykbroker.replica.leading.read_replica import RACK_AWARE, RackAwareSelector
from pykbroker.server.handler import Handler
from pykbroker.server.leader_hints import LeaderHints


def record_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.records`."""
    replicas, config = parts.replicas, parts.settings.config
    hints = LeaderHints(parts.image, parts.endpoints)
    return [
        Produce(
            replicas=replicas,
            rights=WriteRights(replicas, parts.transactions.transactions, parts.verifies_transactions),
            wall_ms=parts.world.wall_ms,
            hints=hints,
        ),
        Fetch(
            rights=ReadRights(replicas),
            sessions=parts.fetch_sessions,
            ticks_ns=parts.world.ticks_ns,
            fetch_bytes_max=config.fetch_max_bytes,
            hints=hints,
            followers=FollowerFetches(replicas, parts.fetch_sessions, parts.isr_keeper),
            selector=RackAwareSelector(parts.image) if config.replica_selector_class == RACK_AWARE else None,
        ),
        ListOffsets(replicas),
        OffsetForLeaderEpoch(replicas),
        DeleteRecords(replicas),
        DescribeProducers(parts.image, replicas),
    ]
