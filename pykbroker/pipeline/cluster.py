"""The cluster that a job reads or writes, asked by our own client: its id, its topics, and the ends of their logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import trio

from pykbroker.client.admin.admin import Admin, check
from pykbroker.client.admin.admin_session import with_admin
from pykbroker.client.admin.group_offsets import committed_with_text
from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.group_coordinators import GroupCoordinators
from pykbroker.client.security import ClientSecurity
from pykbroker.client.security_settings import InvalidSetting, client_security
from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.address import Address, parse_address
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.names import is_internal
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.source.deletions import of_existing
from pykbroker.pipeline.source.topic_pattern import BadPattern, compiled, whole
from pykbroker.world.background import run_in_background
from wire.messages.metadata import MetadataRequest

PATIENCE_S = 60
"""The longest wait for a cluster that does not answer."""
RETRY_S = 0.2
TOPIC_RESOURCE = 2
"""The type of topics in requests for configs."""
CLIENT_ID = "pykbroker-pipeline"
NO_SETTINGS: Mapping[str, str] = {}
T = TypeVar("T")


class ClusterFacts(msgspec.Struct, frozen=True):
    """The id of a cluster, and the ids of some of its topics with their numbers of partitions."""

    cluster_id: str
    topic_ids: dict[str, str]
    partitions: dict[str, int]


class LogEnds(msgspec.Struct, frozen=True):
    """The first offset and the offset of the next record of each partition."""

    first: dict[TopicPartition, int]
    next: dict[TopicPartition, int]


def never() -> bool:
    """Return False."""
    return False


def security_of_jobs(given: Mapping[str, str]) -> ClientSecurity:
    """Return how a job connects, from settings in Kafka's names. Raise PipelineError if they do not work."""
    try:
        return client_security({name.replace(".", "_"): value for name, value in given.items()}, "the job")
    except InvalidSetting as error:
        raise PipelineError(str(error)) from None


class PipelineCluster:
    """A cluster at some bootstrap servers. Each call connects anew. PipelineError is raised if none answers in time.

    `security` has the settings of TLS and SASL, in Kafka's names. PipelineError: they do not work.
    """

    def __init__(
        self, bootstrap: str, security: Mapping[str, str] = NO_SETTINGS, *, committed_only: bool = True
    ) -> None:
        self.bootstrap = bootstrap
        self._given, self._security = security, security_of_jobs(security)
        self._isolation = "read_committed" if committed_only else "read_uncommitted"

    @property
    def _addresses(self) -> list[Address]:
        return [parse_address(each.strip()) for each in self.bootstrap.split(",")]

    def facts(
        self, wanted: Callable[[str], bool], patience_s: float = PATIENCE_S, is_ending: Callable[[], bool] = never
    ) -> ClusterFacts:
        """Return the cluster's id, and its topics whose names are wanted.

        A cluster that is away is asked again for `patience_s`, unless the caller `is_ending`.
        """

        async def ask(admin: Admin) -> ClusterFacts:
            answer = await admin.connection.ask(MetadataRequest(None, allow_auto_topic_creation=False))
            topics = [each for each in answer.topics if each.name and wanted(each.name) and not each.is_internal]
            for topic in topics:
                check(topic.error_code, f"topic {topic.name}")
            ids = {each.name or "": str(UUID(bytes=bytes(each.topic_id))) for each in topics}
            counts = {each.name or "": len(each.partitions) for each in topics}
            return ClusterFacts(answer.cluster_id or "", ids, counts)

        return self._asked(ask, patience_s, is_ending)

    def ends(self, facts: ClusterFacts) -> LogEnds:
        """Return the ends of all logs but those that are deleted meanwhile.

        With `committed_only`, a log ends before its first open transaction.
        """
        partitions = [
            TopicPartition(topic, index) for topic, count in facts.partitions.items() for index in range(count)
        ]

        async def ask(hosted: HostedConsumer) -> LogEnds:
            first, _ = await of_existing(hosted.shell, hosted.consumer.beginning_offsets, partitions)
            ends, _ = await of_existing(hosted.shell, hosted.consumer.end_offsets, list(first))
            return LogEnds({key: first[key] for key in ends}, ends)

        return self._run(ask)

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of logs, without those of partitions that are deleted.

        Partitions that brokers with old metadata hide are waited for.
        """

        async def ask(hosted: HostedConsumer) -> dict[TopicPartition, int]:
            first, _ = await of_existing(hosted.shell, hosted.consumer.beginning_offsets, list(partitions))
            return first

        return self._run(ask)

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group, for the partitions that have one.

        An open transaction with such an offset is waited for.
        """

        async def ask(hosted: HostedConsumer) -> dict[TopicPartition, CommittedOffset]:
            found = await hosted.consumer.committed(partitions)
            return {key: each for key, each in found.items() if each is not None}

        return self._run(ask, group_id=group)

    def last_committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group. Open transactions are not waited for."""

        async def ask(admin: Admin) -> dict[TopicPartition, CommittedOffset]:
            return await committed_with_text(GroupCoordinators(admin), group)

        return self._asked(ask)

    def compacted(self, topics: Collection[str]) -> frozenset[str]:
        """Return the topics whose `cleanup.policy` has `compact`."""
        return self._topics_with(topics, "cleanup.policy", "compact")

    def appends_own_time(self, topics: Collection[str]) -> frozenset[str]:
        """Return the topics whose records get the time of their append."""
        return self._topics_with(topics, "message.timestamp.type", "LogAppendTime")

    def _topics_with(self, topics: Collection[str], name: str, value: str) -> frozenset[str]:
        """Return the topics whose config has a value among others."""

        async def ask(admin: Admin) -> frozenset[str]:
            found = set()
            for topic in topics:
                configs = {each.name: each.value or "" for each in await admin.configs(TOPIC_RESOURCE, topic)}
                if value in configs.get(name, ""):
                    found.add(topic)
            return frozenset(found)

        return self._asked(ask)

    def _asked(
        self,
        ask: Callable[[Admin], Awaitable[T]],
        patience_s: float = PATIENCE_S,
        is_ending: Callable[[], bool] = never,
    ) -> T:
        """Ask until a broker answers. Raise PipelineError with the last failure if none does in time."""

        async def main() -> T:
            failure = "no broker has answered"
            with trio.move_on_after(patience_s):
                while not is_ending():
                    found: list[T] = []

                    async def keep(admin: Admin, found: list[T] = found) -> None:
                        found.append(await ask(admin))

                    try:
                        await with_admin(self._addresses, CLIENT_ID, keep, self._security)
                    except AuthenticationError:
                        raise
                    except (OSError, Disconnected) as error:
                        failure = str(error)
                        await trio.sleep(RETRY_S)
                    else:
                        return found[0]
            raise PipelineError(
                f"{self.bootstrap}: no answer within {patience_s:g} s: is a broker running there? ({failure})"
            )

        return self._answer(partial(run_in_background, CLIENT_ID, main))

    def _run(self, ask: Callable[[HostedConsumer], Awaitable[T]], **settings: Any) -> T:
        given = {
            "bootstrap_servers": self.bootstrap,
            "client_id": CLIENT_ID,
            "isolation_level": self._isolation,
            "allow_auto_create_topics": False,
            "default_api_timeout_ms": PATIENCE_S * 1000,
            **self._given,
            **settings,
        }

        def answer() -> T:
            consumer = HostedConsumer(consumer_settings(given))
            try:
                found: T = consumer.ask(ask, consumer)
            finally:
                consumer.stop()
            return found

        return self._answer(answer)

    def _answer(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except TimeoutError as error:  # that of the consumer
            text = f"{self.bootstrap}: no answer within {PATIENCE_S} s: is a broker running there?"
            raise PipelineError(text) from error
        except AuthenticationError as error:
            raise PipelineError(str(error)) from error
        except (ApiError, ConsumerError, UnsupportedVersion) as error:
            raise PipelineError(f"{self.bootstrap}: {error}") from error


def named(topics: Collection[str]) -> Callable[[str], bool]:
    """Return the function that selects these topics."""
    names = frozenset(topics)
    return names.__contains__


def matching(pattern: str) -> Callable[[str], bool]:
    """Return the function that selects the topics whose whole name matches a regular expression of Java.

    Raise PipelineError for a bad pattern.
    """
    try:
        search = compiled(whole(pattern)).search
    except BadPattern as error:
        raise PipelineError(f"the pattern {pattern!r} {error}") from None
    return lambda name: search(name) is not None


def require_topics(facts: ClusterFacts, topics: Collection[str]) -> None:
    """Raise PipelineError if a topic is missing or internal."""
    missing = sorted(set(topics) - facts.partitions.keys())
    if internal := [name for name in missing if is_internal(name)]:
        raise PipelineError(f"{', '.join(internal)} is a topic of the brokers themselves: no job reads or writes it")
    if missing:
        where = f"no topic {', '.join(missing)} in cluster {facts.cluster_id}"
        raise PipelineError(f"{where}: create it first, or allow this user to DESCRIBE it")


def recreated_topics(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of topics that were deleted and created again."""
    return sorted(name for name, topic_id in before.items() if name in now and now[name] != topic_id)
