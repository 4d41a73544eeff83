"""The fetcher: it sends the Fetch requests that the pure half plans, and passes the responses back to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from pykbroker.client.cluster import ClusterBroker, LeaderHint
from pykbroker.client.defect import Defect
from pykbroker.client.errors import Disconnected, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.client.pending_response import PendingResponse
from pykbroker.consumer.topics import ConsumerTopics
from pykbroker.core.consumer.fetch_call import FetchCall
from pykbroker.core.consumer.fetching import ConsumerFetches
from pykbroker.core.consumer.position import PartitionLeader
from pykbroker.core.topic_partition import TopicPartition
from wire.api import ApiKey
from wire.messages.fetch import FetchResponse

log = logging.getLogger("pykbroker.consumer")


class Fetcher:
    """The Fetch requests in flight.

    `arrived` is called after each response and each failure. `defect` keeps an exception in the handling of a response.
    """

    def __init__(
        self,
        fetches: ConsumerFetches,
        nodes: Nodes,
        metadata: ClusterMetadata,
        topics: ConsumerTopics,
        *,
        arrived: Callable[[], None],
        defect: Defect,
    ) -> None:
        self._fetches, self._nodes, self._metadata, self._topics = fetches, nodes, metadata, topics
        self._arrived, self._defect, self._lacks_node = arrived, defect, False

    def send_due(self, now_ms: float) -> bool:
        """Send the requests that are due. Return False if one of them could not be sent."""
        self._lacks_node = False
        plan = self._fetches.due(self._topics.id_of, self._topics.is_online, self._is_available, now_ms)
        if plan.is_metadata_stale:
            self._metadata.request_update()
        for call in plan.calls:
            self._start(call)
        return not (self._lacks_node or plan.is_delayed)

    def _is_available(self, node: int) -> bool:
        is_ready = self._nodes.ready_or_connect(node)
        self._lacks_node = self._lacks_node or not is_ready
        return is_ready

    def _start(self, call: FetchCall) -> None:
        try:
            self._fetches.sent(call)
            newest = self._nodes.node(call.node).connection().newest_version(ApiKey.FETCH)
            version = newest if call.version_max is None else min(newest, call.version_max)
            pending = self._nodes.ask_nowait(call.node, call.request(version), version)
            pending.call_when_done(partial(self._received, call, pending))
        except (Disconnected, UnsupportedVersion) as error:
            log.warning("node %s: cannot fetch: %s", call.node, error)
            self._fetches.failed(call)
            self._lacks_node = True
        except BaseException:  # an interrupt: whether the request was sent is unknown
            self._fetches.failed(call)
            raise

    def _received(self, call: FetchCall, pending: PendingResponse[FetchResponse]) -> None:
        with self._defect:
            self._handle(call, pending)
            self._arrived()

    def _handle(self, call: FetchCall, pending: PendingResponse[FetchResponse]) -> None:
        try:
            response = pending.result()
        except Disconnected as error:
            log.debug("node %s: a Fetch request has no response: %s", call.node, error)
            self._fetches.failed(call)
        else:
            self._nodes.throttle(call.node, response.throttle_time_ms)
            news = self._fetches.received(call, response)
            if news.leaders:
                self._metadata.add_leaders(
                    leader_hints(news.leaders), [*map(ClusterBroker.of, response.node_endpoints)]
                )
            if news.is_metadata_stale:
                self._metadata.request_update()

    def close(self) -> None:
        """Close the fetch sessions on brokers that are connected. Responses are not awaited."""
        for node, request in self._fetches.close_requests():
            connection = self._nodes.node(node).link.current
            if connection is not None:
                self._nodes.ask_nowait(node, request)


def leader_hints(leaders: Mapping[TopicPartition, PartitionLeader]) -> dict[TopicPartition, LeaderHint]:
    """Return the leaders that a response reports (KIP-951)."""
    return {key: LeaderHint(each.node, each.epoch) for key, each in leaders.items() if each.node is not None}
