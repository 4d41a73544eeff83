"""The partitions that a query reads: `subscribe`, `subscribePattern` or `assign`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_json import parse_partitions
from pykbroker.pipeline.source.topic_pattern import BadPattern, compiled

OPTIONS = ("subscribe", "subscribePattern", "assign")


class SubscribedTopics(NamedTuple):
    """All partitions of some topics."""

    topics: tuple[str, ...]


class MatchingTopics(NamedTuple):
    """All partitions of the topics in whose name a regular expression of Java is found, as in Spark's connector."""

    pattern: str


class AssignedPartitions(NamedTuple):
    """Some partitions."""

    partitions: tuple[TopicPartition, ...]


TopicSelection: TypeAlias = SubscribedTopics | MatchingTopics | AssignedPartitions


def parse_selection(options: Mapping[str, str]) -> TopicSelection:
    """Return the selection that options with names in lower case describe. Raise InvalidOption."""
    given = [name for name in OPTIONS if name.lower() in options]
    if len(given) != 1:
        how_many = "Only one" if given else "One"
        can_be = "can be specified" if given else "must be specified"
        raise InvalidOption(
            f"{how_many} of the following options {can_be} for Kafka source: {', '.join(map(str.lower, OPTIONS))}. "
            "See the docs for more details."
        )
    (name,) = given
    value = options[name.lower()]
    match name:
        case "subscribe":
            return _subscribed(value)
        case "assign":
            return _assigned(value)
        case _:
            return _matching(value)


def _subscribed(value: str) -> SubscribedTopics:
    topics = tuple(dict.fromkeys(topic for part in value.split(",") if (topic := part.strip())))
    if not topics:
        raise InvalidOption(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
    return SubscribedTopics(topics)


def _assigned(value: str) -> AssignedPartitions:
    if not value.strip().startswith("{"):
        raise InvalidOption(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return AssignedPartitions(tuple(parse_partitions("assign", value)))


def _matching(value: str) -> MatchingTopics:
    pattern = value.strip()
    if not pattern:
        raise InvalidOption(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        compiled(pattern)
    except BadPattern as error:
        raise InvalidOption(f"subscribePattern={pattern} {error}") from None
    return MatchingTopics(pattern)


def topics_to_describe(selection: TopicSelection) -> list[str] | None:
    """Return the topics of a selection, or None if all topics of the cluster have to be compared with it."""
    match selection:
        case SubscribedTopics(topics):
            return list(topics)
        case AssignedPartitions(partitions):
            return sorted({partition.topic for partition in partitions})
        case _:
            return None


def selected(selection: TopicSelection, existing: Mapping[str, Collection[int]]) -> list[TopicPartition]:
    """Return the selected partitions among those that exist, sorted. Partitions that do not exist are left out."""
    return sorted(_chosen(selection, existing))


def _chosen(selection: TopicSelection, existing: Mapping[str, Collection[int]]) -> Iterable[TopicPartition]:
    match selection:
        case MatchingTopics(pattern):
            names = [name for name in existing if compiled(pattern).search(name)]
        case SubscribedTopics(topics):
            names = [name for name in topics if name in existing]
        case AssignedPartitions(partitions):
            return [each for each in partitions if each.partition in existing.get(each.topic, ())]
    return [TopicPartition(name, index) for name in names for index in existing[name]]
