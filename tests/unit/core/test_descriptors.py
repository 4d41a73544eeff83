"""Tests of the limits on open files: each limit at, below and above its boundary."""

from __future__ import annotations

import pytest

from pykbroker.core.descriptors import (
    DESCRIPTORS_FOR_CLIENTS_MAX,
    DESCRIPTORS_FOR_NODES_MAX,
    OPEN_FILES_MIN,
    SEALED_SEGMENTS_MAX,
    UNBOUNDED,
    Descriptors,
)
from pykbroker.core.errors import ApiError, StartError
from tests.unit.core.metadata.harness import ControllerHarness, topic
from wire.error_codes import ErrorCode
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreateTopicsRequest


@pytest.mark.parametrize(
    ("limit", "directories", "configured", "expected"),
    [
        (128, 1, -1, (32, 2, 57)),
        (256, 1, -1, (64, 5, 144)),
        (1024, 1, -1, (256, 21, 672)),
        (1024, 4, -1, (256, 5, 672)),
        (3024, 1, -1, (756, 63, 2046)),
        (3072, 1, -1, (768, 64, 2079)),
        (3120, 1, -1, (780, 64, 2115)),
        (3996, 1, -1, (999, 64, 2772)),
        (4000, 1, -1, (1000, 64, 2775)),
        (4004, 1, -1, (1000, 64, 2779)),
        (128, 1, 0, (0, 2, 89)),
        (128, 1, 60, (60, 2, 29)),
        (1 << 20, 1, 5000, (5000, 64, (1 << 20) - 5225)),
        (128, 12, -1, (32, 1, 16)),
    ],
)
def test_the_limit_on_open_files_is_divided_among_clients_segments_and_partitions(
    limit: int, directories: int, configured: int, expected: tuple[int, int, int]
) -> None:
    share = Descriptors(limit, directories, configured)
    assert (share.clients_min, share.sealed_segments_max, share.partitions_max) == expected


@pytest.mark.parametrize("limit", [64, 128, 1024, 65_536])
def test_the_parts_never_exceed_the_limit_on_open_files(limit: int) -> None:
    share = Descriptors(limit)
    assert share.clients_min <= DESCRIPTORS_FOR_CLIENTS_MAX
    assert share.sealed_segments_max <= SEALED_SEGMENTS_MAX
    for partitions in (0, 1, share.partitions_max):
        assert partitions + 3 * share.sealed_segments_max + share.connections_max(partitions) < limit
    assert share.connections_max(share.partitions_max) == share.clients_min
    assert share.connections_max(share.partitions_max - 1) == share.clients_min + 1
    assert share.connections_max(share.partitions_max + 1) == share.clients_min


@pytest.mark.parametrize(("limit", "expected"), [(64, 16), (135, 16), (136, 17), (8008, DESCRIPTORS_FOR_NODES_MAX)])
def test_the_connections_of_nodes_leave_clients_their_share(limit: int, expected: int) -> None:
    share = Descriptors(limit)
    full = share.partitions_max
    assert share.nodes_min == expected
    assert share.connections_of_nodes_max(0, 0, 0) == max(expected, full)
    assert share.connections_of_nodes_max(full, 0, 0) == expected
    assert share.connections_max(0, full + 5) == share.clients_min


def test_clients_and_nodes_use_what_the_others_leave_free() -> None:
    share = Descriptors(1024)  # 256 for clients, 672 for partitions, and at least 128 for each listener of nodes
    assert share.connections_max(100, 0) - share.connections_max(100, 10) == 10
    assert [share.connections_of_nodes_max(100, clients, 0) for clients in (0, 256, 257)] == [572, 572, 571]
    assert [share.connections_of_nodes_max(100, 0, others) for others in (1, 444, 445)] == [571, 128, 128]
    for clients in (0, 256, 400):
        nodes = share.connections_of_nodes_max(100, clients, 0)
        assert share.connections_max(100, nodes) == max(256, clients)


def test_a_broker_does_not_start_with_too_few_open_files() -> None:
    with pytest.raises(StartError, match=f"may open {OPEN_FILES_MIN - 1} files, and a broker needs {OPEN_FILES_MIN}"):
        Descriptors(OPEN_FILES_MIN - 1).check_start()
    for limit in (OPEN_FILES_MIN, OPEN_FILES_MIN + 1):
        Descriptors(limit).check_start()
        assert Descriptors(limit).partitions_max > 0


def test_the_error_names_the_config_that_leaves_no_descriptors_for_partitions() -> None:
    with pytest.raises(StartError, match=r"raise the limit .* or lower pykbroker\.client\.descriptors\.min"):
        Descriptors(128, for_clients_min=89).check_start()
    Descriptors(128, for_clients_min=88).check_start()
    Descriptors(129, for_clients_min=89).check_start()


def test_too_many_partitions_are_refused_with_a_remedy() -> None:
    share = Descriptors(128)
    share.check_room(56, 1)
    share.check_room(0, 57)
    with pytest.raises(ApiError) as caught:
        share.check_room(56, 2)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION
    assert caught.value.message == (
        "2 more partition(s) beside 56 would exceed the 57 that this broker can keep open: the process may open 128"
        " files, of which 32 are kept for clients. Delete topics, or raise the limit of open files (ulimit -n) and"
        " restart the broker."
    )
    UNBOUNDED.check_room(10**6, 10**6)


def created(harness: ControllerHarness, *topics: tuple[str, int], validate_only: bool = False) -> list[int]:
    wanted = [topic(name, partitions) for name, partitions in topics]
    response = harness.ask(CreateTopicsRequest(topics=wanted, validate_only=validate_only))
    return [result.error_code for result in response.topics]


def grown(harness: ControllerHarness, *topics: tuple[str, int]) -> list[int]:
    response = harness.ask(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in topics]
        )
    )
    return [result.error_code for result in response.results]


def test_topics_above_the_partition_limit_are_refused_before_placement() -> None:
    harness = ControllerHarness(descriptors=Descriptors(128)).open(1)
    assert created(harness, ("a", 58)) == [ErrorCode.POLICY_VIOLATION]
    assert harness.decided == ()
    assert created(harness, ("a", 50)) == [0]
    assert created(harness, ("b", 6), ("c", 2), ("d", 1)) == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert created(harness, ("e", 1)) == [ErrorCode.POLICY_VIOLATION]
    assert created(harness, ("e", 1), validate_only=True) == [ErrorCode.POLICY_VIOLATION]
    assert sorted(harness.replayed().topics.by_name) == ["a", "b", "d"]


def test_partitions_are_added_up_to_the_limit() -> None:
    harness = ControllerHarness(descriptors=Descriptors(128)).open(1)
    assert created(harness, ("a", 52), ("b", 1)) == [0, 0]
    assert grown(harness, ("a", 55), ("b", 3)) == [0, ErrorCode.POLICY_VIOLATION]
    assert len(harness.decided) == 3
    assert grown(harness, ("b", 2)) == [0]
    assert grown(harness, ("b", 3)) == [ErrorCode.POLICY_VIOLATION]


def test_deleted_topics_free_descriptors_and_a_loaded_image_counts_its_partitions() -> None:
    from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    harness = ControllerHarness(descriptors=Descriptors(128)).open(1)
    assert created(harness, ("a", 52), ("b", 5)) == [0, 0]
    harness.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")]))
    assert created(harness, ("c", 6), ("d", 5)) == [ErrorCode.POLICY_VIOLATION, 0]
    later = ControllerHarness(harness.replayed(), descriptors=Descriptors(128))
    assert created(later, ("e", 1)) == [ErrorCode.POLICY_VIOLATION]
