"""Tests of requests about groups: moving coordinators, old versions, groups of other types, and malformed bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pykbroker.client.admin.admin import Admin
from pykbroker.client.admin.group_description import GroupDescription, MemberDescription, described
from pykbroker.client.admin.group_offsets import commit_offsets, committed_offsets, delete_offsets
from pykbroker.client.admin.groups import delete_groups, describe_groups, list_groups
from pykbroker.client.errors import UnsupportedVersion
from pykbroker.client.group_coordinators import AVAILABLE_S_MAX, GroupCoordinators
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.list_groups import ListedGroup, ListGroupsResponse
from wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from wire.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic
from wire.messages.offset_delete import OffsetDeleteResponse
from wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

ORDERS = TopicPartition("orders", 0)
Answers = dict[ApiKey, Response | list[Response] | Callable[[Any], Response]]


class Broker:
    """A fake connection with a response for each API, a list of responses in order, or a function of the request."""

    def __init__(self, answers: Answers, **versions: int) -> None:
        self.answers, self.versions = answers, versions
        self.asked: list[tuple[Request[Any], int | None]] = []
        self.closed = False

    def newest_version(self, key: int) -> int:
        return self.versions.get(ApiKey(key).name, APIS[key].accepted.last)

    async def ask(self, request: Request[Any], version: int | None = None) -> Response:
        await trio.lowlevel.checkpoint()
        self.asked.append((request, version))
        if self.versions.get(ApiKey(request.key).name) == -1:
            raise UnsupportedVersion(f"the broker has no version of {ApiKey(request.key).name}")
        answer = self.answers[ApiKey(request.key)]
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer(request) if callable(answer) else answer

    def close(self) -> None:
        self.closed = True


def coordinator(*found: tuple[str, int, int], error: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[Coordinator(group, node_id, "host", port, error) for group, node_id, port in found]
    )


def cluster(*brokers: Broker, first: Broker) -> Admin:
    """Return an admin client on `first` for brokers with the ports 1, 2, ..."""
    first.answers[ApiKey.METADATA] = MetadataResponse(
        brokers=[MetadataResponseBroker(1 + index, "host", 1 + index) for index in range(len(brokers))]
    )

    async def connect(host: str, port: int) -> Broker:
        return brokers[port - 1]

    return Admin(first, connect)  # type: ignore[arg-type]


def alone(answers: Answers, **versions: int) -> tuple[GroupCoordinators, Broker]:
    """Return the coordinators of a cluster of one broker, which coordinates all groups, and the broker."""

    def find(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.coordinator_keys:
            return coordinator(*((group, 1, 1) for group in request.coordinator_keys))
        return FindCoordinatorResponse(node_id=1, host="host", port=1)

    broker = Broker({ApiKey.FIND_COORDINATOR: find, **answers}, **versions)
    return GroupCoordinators(cluster(broker, first=broker)), broker


def deleted(*results: tuple[str, int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(*each) for each in results])


async def test_each_coordinator_is_asked_about_its_own_groups() -> None:
    first = Broker({ApiKey.DELETE_GROUPS: deleted(("a", 0), ("c", 0))})
    second = Broker({ApiKey.DELETE_GROUPS: deleted(("b", ErrorCode.NON_EMPTY_GROUP))})
    contact = Broker({ApiKey.FIND_COORDINATOR: coordinator(("a", 1, 1), ("b", 2, 2), ("c", 1, 1))})
    coordinators = GroupCoordinators(cluster(first, second, first=contact))
    outcomes = await delete_groups(coordinators, ["c", "b", "a", "c"])
    assert list(outcomes) == ["c", "b", "a"]
    assert (outcomes["a"], outcomes["c"]) == (None, None)
    assert str(outcomes["b"]) == "Group 'b' has active members, which must leave first (NON_EMPTY_GROUP)"
    assert coordinators.node_ids == {"a": 1, "b": 2, "c": 1}
    coordinators.close()
    assert (first.closed, second.closed, contact.closed) == (True, True, False)


async def test_a_group_whose_coordinator_has_moved_is_looked_up_again(autojump_clock: MockClock) -> None:
    first = Broker({ApiKey.DELETE_GROUPS: deleted(("a", ErrorCode.NOT_COORDINATOR))})
    second = Broker({ApiKey.DELETE_GROUPS: [deleted(("a", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)), deleted(("a", 0))]})
    contact = Broker(
        {
            ApiKey.FIND_COORDINATOR: [
                coordinator(("a", -1, -1), error=ErrorCode.COORDINATOR_NOT_AVAILABLE),
                coordinator(("a", 1, 1)),
                coordinator(("a", 2, 2)),
            ]
        }
    )
    coordinators = GroupCoordinators(cluster(first, second, first=contact))
    assert await delete_groups(coordinators, ["a"]) == {"a": None}
    assert coordinators.node_ids == {"a": 2}
    assert len(second.asked) == 2


async def test_a_coordinator_that_stays_unavailable_is_reported(autojump_clock: MockClock) -> None:
    coordinators, _ = alone({ApiKey.DELETE_GROUPS: deleted(("a", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))})
    began = trio.current_time()
    outcomes = await delete_groups(coordinators, ["a"])
    assert str(outcomes["a"]) == "Group 'a' (COORDINATOR_LOAD_IN_PROGRESS)"
    assert AVAILABLE_S_MAX <= trio.current_time() - began < AVAILABLE_S_MAX + 1


async def test_a_refused_look_up_is_the_error_of_its_group() -> None:
    found = [
        Coordinator("a", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message="no"),
        Coordinator("b", 1, "host", 1),
    ]
    coordinators, broker = alone({ApiKey.DELETE_GROUPS: deleted(("b", 0))})
    broker.answers[ApiKey.FIND_COORDINATOR] = FindCoordinatorResponse(coordinators=found)
    outcomes = await delete_groups(coordinators, ["a", "b"])
    assert (str(outcomes["a"]), outcomes["b"]) == ("Group 'a': no (GROUP_AUTHORIZATION_FAILED)", None)


async def test_coordinators_are_looked_up_one_by_one_in_old_versions() -> None:
    coordinators, broker = alone({ApiKey.DELETE_GROUPS: deleted(("a", 0), ("b", 0))}, FIND_COORDINATOR=3)
    assert await delete_groups(coordinators, ["a", "b"]) == {"a": None, "b": None}
    assert [request.key_ for request, _ in broker.asked if isinstance(request, FindCoordinatorRequest)] == ["a", "b"]


def unknown(group: str, code: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[DescribedConsumerGroup(error_code=code, group_id=group)])


def classic(group: DescribedGroup) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[group])


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION])
async def test_a_group_that_is_not_of_the_consumer_protocol_is_classic(code: ErrorCode) -> None:
    group = DescribedGroup(group_id="a", group_state="Empty", protocol_type="consumer")
    coordinators, _ = alone(
        {ApiKey.CONSUMER_GROUP_DESCRIBE: unknown("a", code), ApiKey.DESCRIBE_GROUPS: classic(group)}
    )
    assert await describe_groups(coordinators, ["a"]) == {
        "a": GroupDescription("a", "Classic", "Empty", "consumer", "", [])
    }


async def test_a_broker_without_the_consumer_protocol_has_classic_groups() -> None:
    coordinators, _ = alone(
        {ApiKey.DESCRIBE_GROUPS: classic(DescribedGroup(group_id="a", group_state="Stable"))},
        CONSUMER_GROUP_DESCRIBE=-1,
        LIST_GROUPS=4,
    )
    assert (await describe_groups(coordinators, ["a"]))["a"] == GroupDescription("a", "Classic", "Stable", "", "", [])


async def test_an_unknown_group_that_an_old_broker_calls_dead_does_not_exist() -> None:
    coordinators, _ = alone(
        {ApiKey.DESCRIBE_GROUPS: classic(DescribedGroup(group_id="a", group_state="Dead"))},
        CONSUMER_GROUP_DESCRIBE=-1,
        LIST_GROUPS=4,
    )
    outcome = (await describe_groups(coordinators, ["a"]))["a"]
    assert str(outcome) == "Group 'a' does not exist (GROUP_ID_NOT_FOUND)"


async def test_a_share_group_is_refused_by_its_type() -> None:
    broker = Broker(
        {
            ApiKey.CONSUMER_GROUP_DESCRIBE: unknown("a"),
            ApiKey.DESCRIBE_GROUPS: classic(DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id="a")),
            ApiKey.LIST_GROUPS: ListGroupsResponse(groups=[ListedGroup("a", "share", "Stable", "share")]),
        }
    )
    outcome = (await described(broker, ["a"]))["a"]  # type: ignore[arg-type]
    assert isinstance(outcome, ApiError)
    assert outcome.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert str(outcome) == "Group 'a' is of type Share, and consumers form only groups of types Classic and Consumer"


@pytest.mark.parametrize(
    ("protocol", "assignment", "assigned"),
    [
        ("consumer", b"\x00", None),
        ("consumer", b"", []),
        ("connect", b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", None),
        ("consumer", b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", []),
    ],
)
async def test_an_assignment_that_is_no_consumers_is_unknown(
    protocol: str, assignment: bytes, assigned: list[TopicPartition] | None
) -> None:
    member = DescribedGroupMember("m", None, "client", "/host", member_assignment=assignment)
    group = DescribedGroup(group_id="a", group_state="Stable", protocol_type=protocol, members=[member])
    coordinators, _ = alone({ApiKey.CONSUMER_GROUP_DESCRIBE: unknown("a"), ApiKey.DESCRIBE_GROUPS: classic(group)})
    outcome = (await describe_groups(coordinators, ["a"]))["a"]
    assert isinstance(outcome, GroupDescription)
    assert outcome.members == [MemberDescription("m", None, "client", "/host", assigned)]


def listed(*groups: ListedGroup, error: int = 0) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error, groups=list(groups))


async def test_groups_of_all_brokers_are_listed_once_they_are_loaded(autojump_clock: MockClock) -> None:
    def described_empty(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=each) for each in request.groups])

    first = Broker(
        {
            ApiKey.LIST_GROUPS: [
                listed(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
                listed(ListedGroup("b", "consumer", "Empty", "classic")),
            ],
            ApiKey.DESCRIBE_GROUPS: described_empty,
        }
    )
    second = Broker(
        {
            ApiKey.LIST_GROUPS: listed(ListedGroup("s", "share", "Empty", "share"), ListedGroup("a", "", "Empty", "")),
            ApiKey.DESCRIBE_GROUPS: described_empty,
        }
    )
    assert await list_groups(cluster(first, second, first=first)) == [
        ("a", "Classic", "Empty", None, 2, 0),
        ("b", "Classic", "Empty", "consumer", 1, 0),
        ("s", "Share", "Empty", "share", 2, None),
    ]


async def test_a_refused_list_names_the_broker() -> None:
    broker = Broker({ApiKey.LIST_GROUPS: listed(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)})
    with pytest.raises(ApiError, match="groups of broker 1 .CLUSTER_AUTHORIZATION_FAILED."):
        await list_groups(cluster(broker, first=broker))


@pytest.mark.parametrize(("version", "words"), [(3, (["Empty"], [])), (4, ([], ["Consumer"]))])
async def test_a_filter_that_the_broker_lacks_is_refused(version: int, words: tuple[list[str], list[str]]) -> None:
    broker = Broker({}, LIST_GROUPS=version)
    with pytest.raises(UnsupportedVersion, match=f"which needs ListGroups version {version + 1}"):
        await list_groups(cluster(broker, first=broker), *words)


async def test_committed_offsets_are_read_by_topic_name() -> None:
    parts = [
        OffsetFetchResponsePartitions(0, 5),
        OffsetFetchResponsePartitions(1, -1),
        OffsetFetchResponsePartitions(2, 5, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ]
    group = OffsetFetchResponseGroup("a", [OffsetFetchResponseTopics("orders", partitions=parts)])
    coordinators, broker = alone({ApiKey.OFFSET_FETCH: OffsetFetchResponse(groups=[group])})
    assert await committed_offsets(coordinators, "a") == {ORDERS: 5}
    assert broker.asked[-1][1] == 9


async def test_committed_offsets_are_read_from_an_old_broker() -> None:
    topics = [OffsetFetchResponseTopic("orders", [OffsetFetchResponsePartition(0, 5)])]
    coordinators, broker = alone({ApiKey.OFFSET_FETCH: OffsetFetchResponse(topics=topics)}, OFFSET_FETCH=7)
    assert await committed_offsets(coordinators, "a") == {ORDERS: 5}
    assert broker.asked[-1][1] == 7


async def test_refused_offsets_raise_the_error() -> None:
    group = OffsetFetchResponseGroup("a", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    coordinators, _ = alone({ApiKey.OFFSET_FETCH: OffsetFetchResponse(groups=[group])})
    with pytest.raises(ApiError, match="Group 'a' .GROUP_AUTHORIZATION_FAILED."):
        await committed_offsets(coordinators, "a")


def commit_response(*codes: int) -> OffsetCommitResponse:
    parts = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=parts)])


async def test_a_commit_is_repeated_while_the_coordinator_loads(autojump_clock: MockClock) -> None:
    loading, second = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, TopicPartition("orders", 1)
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    coordinators, broker = alone(
        {ApiKey.OFFSET_COMMIT: [commit_response(loading, loading), commit_response(0, too_large)]}
    )
    outcomes = await commit_offsets(coordinators, "a", {ORDERS: 1, second: 2})
    assert outcomes[ORDERS] is None
    assert str(outcomes[second]) == "Group 'a' (OFFSET_METADATA_TOO_LARGE)"
    assert broker.asked[-1][1] == 9


async def test_a_refused_deletion_of_offsets_is_the_error_of_each_partition() -> None:
    coordinators, _ = alone({ApiKey.OFFSET_DELETE: OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)})
    outcomes = await delete_offsets(coordinators, "a", [ORDERS])
    assert str(outcomes[ORDERS]) == "Group 'a' does not exist (GROUP_ID_NOT_FOUND)"
