"""Tests of the view of a cluster: merges of Metadata responses and leader hints never lead back to an older leader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.client.cluster import Cluster, ClusterBroker, LeaderHint, Merged
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NEWEST = 13
ID, OTHER_ID = b"1" * 16, b"2" * 16
ORDERS = TopicPartition("orders", 0)


def described(
    leader: int = 1, epoch: int = 0, *, topic_id: bytes = ID, name: str = "orders", error: int = 0
) -> MetadataResponseTopic:
    """Return a topic of a Metadata response, with one partition."""
    partition = MetadataResponsePartition(0, 0, leader, epoch, [1, 2, 3], [leader], [])
    return MetadataResponseTopic(error, name, topic_id, False, [] if error else [partition])


def response(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataResponse:
    nodes = [MetadataResponseBroker(node_id, f"host{node_id}", 9092) for node_id in brokers]
    return MetadataResponse(brokers=nodes, controller_id=1, cluster_id="cluster", topics=list(topics))


def merged(old: Cluster, *topics: MetadataResponseTopic, version: int = NEWEST, partial: bool = False) -> Merged:
    return old.merge(response(*topics), version, lambda name, topic_id, internal: True, partial=partial)


def cluster(*topics: MetadataResponseTopic) -> Cluster:
    return merged(Cluster(), *topics).cluster


def test_a_response_describes_brokers_topics_and_leaders() -> None:
    view = cluster(described(2, 7))
    assert view.brokers[2] == ClusterBroker(2, "host2", 9092)
    assert (view.controller_id, view.cluster_id) == (1, "cluster")
    assert view.leader(ORDERS) == 2
    assert view.epoch(ORDERS) == 7
    assert view.topic_names == {ID: "orders"}
    assert view.leader(TopicPartition("orders", 1)) is None
    assert view.leader(TopicPartition("payments", 0)) is None


def test_a_partition_without_a_leader_or_with_an_unknown_broker_as_leader_has_no_leader() -> None:
    assert cluster(described(-1, 3)).leader(ORDERS) is None
    assert cluster(described(9, 3)).leader(ORDERS) is None


def test_a_response_with_an_older_leader_epoch_keeps_the_known_leader() -> None:
    result = merged(cluster(described(2, 7)), described(1, 6))
    assert result.cluster.leader(ORDERS) == 2
    assert not result.has_news


def test_a_response_with_an_equal_leader_epoch_is_no_news_but_updates_the_isr() -> None:
    newer = described(2, 7)
    newer.partitions[0].isr_nodes = [2, 3]
    result = merged(cluster(described(2, 7)), newer)
    assert not result.has_news
    partition = result.cluster.partition(ORDERS)
    assert partition is not None
    assert partition.isr == (2, 3)


def test_a_recreated_topic_may_start_at_an_older_leader_epoch() -> None:
    result = merged(cluster(described(2, 7)), described(3, 0, topic_id=OTHER_ID))
    assert result.cluster.leader(ORDERS) == 3
    assert result.recreated == {"orders"}
    assert result.has_news


def test_an_error_response_keeps_the_topic_id_and_the_leader_epoch_for_stale_responses_that_follow() -> None:
    error = described(name="orders", topic_id=NIL, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    result = merged(cluster(described(2, 7)), error)
    assert result.is_stale
    assert result.cluster.topics["orders"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result.cluster.leader(ORDERS) is None
    assert merged(result.cluster, described(1, 6)).cluster.leader(ORDERS) is None
    assert merged(result.cluster, described(3, 8)).cluster.leader(ORDERS) == 3


def test_a_topic_that_is_not_authorized_needs_no_further_refresh() -> None:
    assert not merged(Cluster(), described(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)).is_stale


def test_a_partition_error_asks_for_another_refresh() -> None:
    topic = described(-1, 3)
    topic.partitions[0].error_code = ErrorCode.LEADER_NOT_AVAILABLE
    assert merged(Cluster(), topic).is_stale


def test_leader_epochs_of_old_metadata_versions_are_ignored() -> None:
    view = merged(cluster(described(2, 7)), described(1, 3), version=8).cluster
    assert view.leader(ORDERS) == 1
    assert view.epoch(ORDERS) == -1


def test_a_partial_response_keeps_the_other_topics_and_a_full_response_drops_them() -> None:
    old, other = cluster(described(2, 7)), described(3, 1, topic_id=OTHER_ID, name="payments")
    assert set(merged(old, other, partial=True).cluster.topics) == {"orders", "payments"}
    assert set(merged(old, other).cluster.topics) == {"payments"}


def test_a_topic_that_is_no_longer_retained_is_dropped_with_its_leader_epochs() -> None:
    view = cluster(described(2, 7)).merge(response(described(2, 7)), NEWEST, lambda *_: False, partial=True).cluster
    assert not view.topics
    assert not view.epochs


def test_an_unknown_topic_id_in_a_response_asks_for_another_refresh() -> None:
    unknown = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, OTHER_ID)
    assert merged(Cluster(), unknown).is_stale


def test_a_newer_leader_hint_moves_the_leader_and_adds_its_broker() -> None:
    hint = {ORDERS: LeaderHint(4, 8)}
    view, changed = cluster(described(2, 7)).with_leaders(hint, [ClusterBroker(4, "host4", 9092)])
    assert view.leader(ORDERS) == 4
    assert view.brokers[4].host == "host4"
    assert changed == {ORDERS}
    assert merged(view, described(2, 7)).cluster.leader(ORDERS) is None, "broker 4 is missing from the response"


def test_a_leader_hint_is_ignored_that_is_not_newer_or_whose_broker_or_partition_is_unknown() -> None:
    old = cluster(described(2, 7))
    for partition, hint in (
        (ORDERS, LeaderHint(3, 7)),
        (ORDERS, LeaderHint(9, 8)),
        (TopicPartition("orders", 1), LeaderHint(3, 8)),
    ):
        assert old.with_leaders({partition: hint}, []) == (old, frozenset())


def test_the_bootstrap_view_has_brokers_with_negative_node_ids() -> None:
    view = Cluster.bootstrap([("a", 1), ("b", 2)])
    assert [(broker.node_id, broker.host) for broker in view.brokers.values()] == [(-1, "a"), (-2, "b")]
    assert view.is_bootstrap
    assert not merged(view).cluster.is_bootstrap


facts = st.tuples(st.sampled_from(["full", "partial", "hint", "error"]), st.integers(0, 6))


@given(st.lists(facts, max_size=30))
def test_the_leader_epoch_of_a_topic_id_never_decreases(sequence: list[tuple[str, int]]) -> None:
    view, newest = Cluster(), -1
    for kind, epoch in sequence:
        leader = epoch % 3 + 1  # an epoch has one leader
        if kind == "hint":
            view, _ = view.with_leaders({ORDERS: LeaderHint(leader, epoch)}, [])
        elif kind == "error":
            view = merged(view, described(topic_id=NIL, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)).cluster
        else:
            view = merged(view, described(leader, epoch), partial=kind == "partial").cluster
        assert view.epoch(ORDERS) >= newest
        newest = view.epoch(ORDERS)
        assert view.leader(ORDERS) in (None, newest % 3 + 1)
