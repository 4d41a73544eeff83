"""The look-up of offsets for the user: the ends of logs, and the offsets of timestamps."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.consumer.topics import ConsumerTopics, with_error
from pykbroker.core.backoff import Uniform
from pykbroker.core.consumer.errors import TopicsUnauthorized
from pykbroker.core.consumer.offsets import (
    OffsetsFound,
    TimedOffset,
    list_offsets_requests,
    offsets_found,
    requested_partitions,
)
from pykbroker.core.consumer.position_lookups import LookupSettings
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.list_offsets import ListOffsetsRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

log = logging.getLogger("pykbroker.consumer")


class OffsetLookups:
    """The look-ups that calls of the user make. Each is repeated until it succeeds; the caller sets the deadline."""

    def __init__(
        self,
        links: tuple[Nodes, ClusterMetadata, ConsumerTopics],
        settings: LookupSettings,
        uniform: Uniform,
        retry_backoff_ms_max: float,
    ) -> None:
        self._nodes, self._metadata, self._topics = links
        self._settings, self._uniform, self._backoff_ms_max = settings, uniform, retry_backoff_ms_max

    async def offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, TimedOffset | None]:
        """Return the offsets for timestamps, or -1 for the ends and -2 for the starts of logs.

        None stands for a timestamp after the last record. Raise TopicsUnauthorized.
        """
        found: dict[TopicPartition, TimedOffset | None] = {}
        backoff = self._backoff()
        with self._topics.borrowed(partition.topic for partition in timestamps):
            while left := {key: each for key, each in timestamps.items() if key not in found}:
                requests = list_offsets_requests(
                    left,
                    self._topics.leader_of,
                    committed=self._settings.is_committed,
                    timeout_ms=self._settings.request_timeout_ms,
                )
                answers = await self._ask_all(requests.by_node)
                for each in answers:
                    found |= each.offsets
                if len(found) < len(timestamps):
                    await self._refresh(backoff, is_first=not answers and not found)
                    wanted = {each.topic for each in left}
                    if denied := with_error(self._topics.cluster, wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                        raise TopicsUnauthorized(denied)
        return {partition: found[partition] for partition in timestamps}

    async def _ask_all(self, requests: Mapping[int, ListOffsetsRequest]) -> list[OffsetsFound]:
        """Return what all brokers answer. Raise TopicsUnauthorized if one of them refuses."""
        answers: list[OffsetsFound] = []
        refusals: list[TopicsUnauthorized] = []
        async with trio.open_nursery() as nursery:
            for node, request in requests.items():
                nursery.start_soon(self._ask, node, request, answers, refusals)
        for refusal in refusals:
            raise refusal
        return answers

    @trio.lowlevel.enable_ki_protection
    async def _ask(
        self, node: int, request: ListOffsetsRequest, answers: list[OffsetsFound], refusals: list[TopicsUnauthorized]
    ) -> None:
        try:
            answers.append(offsets_found(request, await self._nodes.ask(node, request)))
        except TopicsUnauthorized as error:
            refusals.append(error)
        except (OSError, Disconnected, UnsupportedVersion):
            answers.append(OffsetsFound({}, set(requested_partitions(request))))

    async def _refresh(self, backoff: Backoff, *, is_first: bool) -> None:
        """Wait for newer metadata. A first look-up, which only lacks metadata, is repeated without a backoff."""
        delay = backoff.failed()
        await self._metadata.wait_newer(self._metadata.request_update())
        if not is_first:
            await trio.sleep(delay)

    async def topics(self, names: Collection[str] | None, *, creates: bool = False) -> list[MetadataResponseTopic]:
        """Return the descriptions of some topics or of all. With `creates`, the broker may create missing topics."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        backoff = self._backoff()
        while True:
            node = self._nodes.least_loaded()
            try:
                if node is not None:
                    return (await self._nodes.ask(node, MetadataRequest(wanted, creates))).topics
                self._nodes.check_refusal()
            except AuthenticationError:
                raise
            except (OSError, Disconnected):
                log.debug("node %s: Metadata has no response, and is repeated", node)
            except UnsupportedVersion as error:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
            await trio.sleep(backoff.failed())

    async def topics_of_each(self, names: Collection[str], timeout_s: float) -> list[list[MetadataResponseTopic]]:
        """Return the descriptions of some topics by each broker that answers in time, which may have old metadata."""
        answers: list[list[MetadataResponseTopic]] = []
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)

        @trio.lowlevel.enable_ki_protection
        async def ask(node: int) -> None:
            with suppress(OSError, Disconnected, UnsupportedVersion):
                answers.append((await self._nodes.ask(node, request)).topics)

        with trio.move_on_after(timeout_s):
            async with trio.open_nursery() as nursery:
                for node in self._topics.cluster.brokers:
                    nursery.start_soon(ask, node)
        return answers

    def _backoff(self) -> Backoff:
        return Backoff(self._uniform, self._settings.retry_backoff_ms, self._backoff_ms_max)
