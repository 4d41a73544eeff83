"""Tests of the controller's state machine with random requests, compared with a simple model of a cluster."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import RECORDS_MAX
from pykbroker.core.now import Now
from tests.unit.core.metadata.harness import NOW_MS, ControllerHarness, topic
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.sentinels import NO_LEADER
from wire.stored.metadata_settings import FeatureLevelRecord, ProducerIdsRecord

NAMES = ["a", "b", "c.d", "c_d", "e"]
BROKERS = [1, 2, 3]
OWN = 1
"""The broker in the controller's own process, which has no session."""


class Cluster(RuleBasedStateMachine):
    """A model of the cluster: the partition and replica counts of topics, and the state of each broker."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = ControllerHarness().bootstrap().activate()
        self.topics: dict[str, tuple[int, int]] = {}
        self.fenced: dict[int, bool | None] = {}  # None in controlled shutdown, when a broker gets no replicas
        self.sessions: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.incarnations = 0
        self.blocks = 0

    @rule(
        names=st.lists(st.sampled_from(NAMES), max_size=3),
        partitions=st.integers(1, 3),
        replicas=st.integers(1, 3),
        validate_only=st.booleans(),
    )
    def create(self, names: list[str], partitions: int, replicas: int, validate_only: bool) -> None:
        response = self.harness.ask(
            CreateTopicsRequest(
                topics=[topic(name, partitions, replicas) for name in names], validate_only=validate_only
            )
        )
        assert sorted(result.name for result in response.topics) == sorted(set(names))
        possible = self.can_place(replicas)
        for result in response.topics:
            taken = {name.replace(".", "_") for name in self.topics}
            legal = names.count(result.name) == 1 and possible
            if not validate_only:
                assert (result.error_code == 0) == (legal and result.name.replace(".", "_") not in taken)
            if result.error_code == 0 and not validate_only:
                self.topics[result.name] = (partitions, replicas)

    def can_place(self, replicas: int) -> bool:
        usable = [fenced for fenced in self.fenced.values() if fenced is not None]
        return replicas <= len(usable) and False in usable

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        (result,) = self.harness.ask(DeleteTopicsRequest(topic_names=[name])).responses
        assert (result.error_code == 0) == (self.topics.pop(name, None) is not None)

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def grow(self, name: str, count: int) -> None:
        (result,) = self.harness.ask(
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)])
        ).results
        had, replicas = self.topics.get(name, (9, 0))
        legal = count > had and self.can_place(replicas)
        assert (result.error_code == 0) == legal
        if legal:
            self.topics[name] = (count, replicas)

    @rule(broker=st.sampled_from(BROKERS), clean=st.booleans())
    def register(self, broker: int, clean: bool) -> None:
        self.incarnations += 1
        previous = self.epochs.get(broker, -1) if clean else -1
        legal = broker not in self.sessions
        try:
            self.epochs[broker] = self.harness.register(broker, self.incarnations % 256, previous)
        except ApiError as refused:
            assert not legal
            assert refused.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        else:
            assert legal
            self.fenced[broker] = True
            self.sessions.discard(broker)

    @rule()
    def wait(self) -> None:
        self.harness.pass_time(20_000)
        for broker in self.sessions:
            self.fenced[broker] = True
        self.sessions.clear()

    @precondition(lambda self: self.epochs)
    @rule(broker=st.sampled_from(BROKERS), want_fence=st.booleans(), want_shut_down=st.booleans())
    def beat(self, broker: int, want_fence: bool, want_shut_down: bool) -> None:
        if broker in self.epochs:
            response = self.harness.beat(
                broker, self.epochs[broker], want_fence=want_fence, want_shut_down=want_shut_down
            )
            self.fenced[broker] = response.is_fenced
            image = self.harness.machine.freeze(1, NOW_MS).image
            assert image.cluster.brokers[broker].fenced == response.is_fenced
            if not response.is_fenced and image.cluster.brokers[broker].in_controlled_shutdown:
                self.fenced[broker] = None
            self.sessions.discard(broker)
            if broker != OWN and not response.should_shut_down:
                self.sessions.add(broker)

    @precondition(lambda self: self.epochs)
    @rule()
    def allocate(self) -> None:
        broker, epoch = next(iter(self.epochs.items()))
        response = self.harness.ask(AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch))
        assert response.producer_id_start == self.blocks * 1000
        self.blocks += 1

    @invariant()
    def the_image_is_the_model(self) -> None:
        image = self.harness.machine.freeze(1, NOW_MS).image
        assert {
            name: (len(found.partitions), len(found.partitions[0].replicas))
            for name, found in image.topics.by_name.items()
        } == self.topics
        assert {found.id: found for found in image.topics.by_name.values()} == dict(image.topics.by_id)

    @invariant()
    def leaders_are_alive_and_in_sync(self) -> None:
        image = self.harness.machine.freeze(1, NOW_MS).image
        for found in image.topics.by_name.values():
            for partition in found.partitions.values():
                assert partition.leader == NO_LEADER or image.cluster.brokers[partition.leader].active
                assert partition.leader == NO_LEADER or partition.leader in partition.isr
                assert set(partition.isr) <= set(partition.replicas)
                assert not set(partition.isr) & set(partition.elr)

    def teardown(self) -> None:
        assert self.harness.replayed() == self.harness.machine.freeze(1, NOW_MS).image


Cluster.TestCase.settings = hypothesis_settings(stateful_step_count=25)
TestCluster = Cluster.TestCase


def test_the_replayed_image_does_not_depend_on_when_images_were_taken() -> None:
    harness = ControllerHarness().open(1, 2)
    harness.ask(CreateTopicsRequest(topics=[topic("a", 2, 2), topic("b", 1, 1, min_insync_replicas="1")]))
    harness.freeze()
    harness.ask(DeleteTopicsRequest(topic_names=["a"]))
    harness.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=2, assignments=None)]))
    harness.freeze()
    harness.ask(CreateTopicsRequest(topics=[topic("a")]))
    assert harness.freeze().image == harness.replayed()


def test_a_request_with_too_many_records_is_refused_as_a_whole() -> None:
    harness = ControllerHarness().open(1)
    before = harness.machine.next_offset
    with pytest.raises(ApiError) as refused:
        harness.ask(CreateTopicsRequest(topics=[topic("small"), topic("large", RECORDS_MAX)]))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert harness.machine.next_offset == before
    harness.ask(CreateTopicsRequest(topics=[topic("large", RECORDS_MAX - 1)]))
    assert len(harness.decided) == RECORDS_MAX


def test_a_broker_registration_may_write_any_number_of_records() -> None:
    harness = ControllerHarness().open(1)
    harness.ask(CreateTopicsRequest(topics=[topic("large", RECORDS_MAX - 1)]))
    harness.ask(CreateTopicsRequest(topics=[topic("more", 10)]))
    harness.register(1, incarnation=2)
    assert len(harness.decided) == RECORDS_MAX + 9 + 2


def test_another_process_cannot_have_the_id_of_the_controllers_broker() -> None:
    harness = ControllerHarness(incarnation_id=bytes(15) + b"\x05").bootstrap()
    for _ in ("before the controller's broker is registered", "and while it runs"):
        with pytest.raises(ApiError) as refused:
            harness.register(1, incarnation=6)
        assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        epoch = harness.register(1, incarnation=5)
    harness.register(2, incarnation=6)
    assert not harness.beat(1, epoch).is_fenced


def test_the_timers_of_a_healthy_cluster_write_no_records() -> None:
    harness = ControllerHarness().open(1).activate()
    harness.ask(CreateTopicsRequest(topics=[topic("a", 3)]))
    assert harness.pass_time(1_000_000) == []
    assert 1_000_000 < harness.machine.deadline_ms < inf


def test_a_controller_is_registered() -> None:
    harness = ControllerHarness().bootstrap()
    listener = Listener(name="CONTROLLER", host="h", port=1, security_protocol=0)
    feature = Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
    response = harness.ask(
        ControllerRegistrationRequest(
            controller_id=1, incarnation_id=b"i" * 16, listeners=[listener], features=[feature]
        )
    )
    assert (response.error_code, response.error_message) == (0, None)
    controller = harness.freeze().image.cluster.controllers[1]
    assert controller.endpoint("CONTROLLER") == controller.endpoints[0]
    assert controller.features == {"metadata.version": (7, 30)}


def test_a_broker_of_another_cluster_is_refused() -> None:
    with pytest.raises(ApiError, match="but got cluster ID other") as refused:
        ControllerHarness().bootstrap().register(1, cluster_id="other")
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_that_does_not_support_a_finalized_level_is_refused() -> None:
    harness = ControllerHarness().open(1)
    harness.write(FeatureLevelRecord(name="group.version", feature_level=2))
    with pytest.raises(ApiError, match="does not support finalized version 2 of group.version") as refused:
        harness.register(2)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_exhausted_producer_ids_are_refused() -> None:
    harness = ControllerHarness().open(1)
    harness.write(ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 1000))
    epoch = harness.freeze().image.cluster.brokers[1].epoch
    with pytest.raises(ApiError, match="Exhausted all producerIds"):
        harness.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))


def test_an_unclean_election_takes_place_only_if_it_is_enabled() -> None:
    harness = ControllerHarness(min_insync_replicas=1).open(1, 2)
    harness.ask(
        CreateTopicsRequest(topics=[topic("safe", 1, 2), topic("loose", 1, 2, unclean_leader_election_enable="true")])
    )
    epochs = {broker.id: broker.epoch for broker in harness.freeze().image.cluster.brokers.values()}
    for name in ("safe", "loose"):
        assert len(harness.freeze().image.topics.by_name[name].partitions[0].isr) == 2
    harness.beat(2, epochs[2], want_fence=True)
    harness.beat(1, epochs[1], want_fence=True)
    harness.beat(2, epochs[2])
    topics = harness.freeze().image.topics
    assert topics.by_name["safe"].partitions[0].leader == NO_LEADER
    assert (topics.by_name["loose"].partitions[0].leader, topics.by_name["loose"].partitions[0].recovering) == (2, True)
    assert harness.machine.unclean_election_count == 1
    harness.machine.loaded(Now(harness.now_ms, NOW_MS))
    assert harness.machine.unclean_election_count == 0, "a start counts no elections of the log"


@pytest.mark.parametrize("partitions", [1, 7])
def test_replicas_are_spread_evenly_over_brokers(partitions: int) -> None:
    harness = ControllerHarness().open(1, 2, 3)
    harness.ask(CreateTopicsRequest(topics=[topic("a", 3 * partitions, 2)]))
    placed = [list(partition.replicas) for partition in harness.freeze().image.topics.by_name["a"].partitions.values()]
    for replica in range(2):
        assert sorted(replicas[replica] for replicas in placed) == sorted(BROKERS * partitions)
    assert all(len(set(replicas)) == 2 for replicas in placed)


def test_the_partition_limit_of_a_request_is_checked_before_placement() -> None:
    harness = ControllerHarness().open(1)
    for topics in ([topic("a", 2**31 - 1)], [topic("a", 9_999), topic("bad/name", 2)], [topic("a", 10_001)]):
        for validate_only in (False, True):
            with pytest.raises(ApiError, match="Excessively large number of partitions per request") as refused:
                harness.ask(CreateTopicsRequest(topics=topics, validate_only=validate_only))
            assert refused.value.code is ErrorCode.POLICY_VIOLATION
    harness.ask(CreateTopicsRequest(topics=[topic("a", 1), topic("b", 1)]))
    for counts, refused_names in (((2**31 - 1, 2), "a"), ((10_002, 2), "a"), ((5_002, 5_002), "b")):
        wanted = [CreatePartitionsTopic(name, count, None) for name, count in zip("ab", counts, strict=True)]
        results = harness.ask(CreatePartitionsRequest(topics=wanted, validate_only=True)).results
        assert {one.name: one.error_code for one in results if one.error_code} == dict.fromkeys(
            refused_names, ErrorCode.POLICY_VIOLATION
        )
    harness.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, 5_001, None) for name in "ab"]))
    assert len(harness.decided) == RECORDS_MAX
