"""The plans of `pykbroker topics reassign`."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click
import pytest

from pykbroker.cli.topics.reassign_plan import (
    PlannedReplicas,
    Takers,
    brokers_of_option,
    check_brokers,
    check_leaving,
    file_plan,
    moved_away,
    spread,
)
from pykbroker.core.topic_partition import TopicPartition

A0, A1, A2 = (TopicPartition("a", index) for index in range(3))


def test_the_partitions_of_a_topic_begin_with_one_broker_after_the_other() -> None:
    plan = spread({A1: (1,), A0: (1,), A2: (2, 3)}, (1, 2, 3), ())
    assert plan == [
        PlannedReplicas(A0, (1,), (1, 2, 3)),
        PlannedReplicas(A1, (1,), (2, 3, 1)),
        PlannedReplicas(A2, (2, 3), (3, 1, 2)),
    ]


def test_a_named_partition_takes_the_brokers_in_their_order() -> None:
    assert spread({A1: (1,)}, (3, 1), {A1}) == [PlannedReplicas(A1, (1,), (3, 1))]


def test_replicas_move_away_to_the_brokers_with_the_fewest_replicas() -> None:
    takers = Takers(dict.fromkeys((1, 2, 3, 4)), Counter({1: 5, 2: 5, 3: 1, 4: 1}))
    plan = moved_away({A0: (1, 2), A1: (2, 1), A2: (2, 3)}, [1], takers)
    assert [each.new for each in plan] == [(3, 2), (2, 4), (2, 3)]


def test_a_rack_without_a_replica_is_preferred() -> None:
    takers = Takers({1: "x", 2: "y", 3: "y", 4: "x"}, Counter({4: 9}))
    assert moved_away({A0: (1, 2)}, [1], takers)[0].new == (4, 2)
    assert moved_away({A0: (2, 1)}, [2], takers)[0].new == (3, 1)


def test_several_brokers_are_left_at_once() -> None:
    takers = Takers(dict.fromkeys((1, 2, 3, 4)), Counter())
    assert moved_away({A0: (1, 2)}, [1, 2], takers)[0].new == (3, 4)


def test_a_broker_that_nobody_can_replace_is_named() -> None:
    with pytest.raises(ValueError, match="a-0: no unfenced broker can take over the replica of broker 1"):
        moved_away({A0: (1, 2)}, [1], Takers({1: None, 2: None}, Counter()))


def test_a_broker_that_is_not_registered_is_named() -> None:
    with pytest.raises(ValueError, match="a-0: there is no broker 9: the cluster has 1, 2"):
        check_brokers([PlannedReplicas(A0, (1,), (2, 9))], {2, 1})
    check_brokers([PlannedReplicas(A0, (1,), (2, 1))], {2, 1})


@pytest.mark.parametrize("text", ["", "1,", "a", "-1", "1 2", "99999999999"])
def test_ids_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a list of broker ids such as 1,2,3"):
        brokers_of_option(text)


def test_a_broker_that_is_named_twice_is_refused() -> None:
    assert brokers_of_option("3, 1") == (3, 1)
    with pytest.raises(click.BadParameter, match="names broker 3 twice"):
        brokers_of_option("3,1,3")


def written(*partitions: dict[str, Any]) -> str:
    return json.dumps({"version": 1, "partitions": partitions})


def test_a_file_of_kafkas_tool_is_read() -> None:
    text = written(
        {"topic": "a", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
        {"topic": "a", "partition": 0, "replicas": [1]},
    )
    assert file_plan(text, "f") == {A1: (2, 1), A0: (1,)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f is no reassignment in Kafka's form, such as"),
        ("[]", "f is no reassignment in Kafka's form, such as"),
        ('{"partitions": [{"topic": "a"}]}', "f is no reassignment in Kafka's form, such as"),
        (written({"topic": "a", "partition": 0, "replicas": ["1"]}), "f is no reassignment in Kafka's form, such as"),
        (written(), "f has no partition"),
        (written(*[{"topic": "a", "partition": 0, "replicas": [1]}] * 2), "f names a-0 twice"),
        (
            written({"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}),
            "f names log_dirs for a-0: leave them out here",
        ),
    ],
)
def test_another_file_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(click.BadParameter, match=sentence):
        file_plan(text, "f")


def test_replicas_move_away_from_known_brokers_only() -> None:
    check_leaving([1, 3], {1, 2}, Counter({3: 1}))  # broker 3 is not registered any more, and still has a replica
    with pytest.raises(ValueError, match=r"^--away-from 4: there is no broker 4: the cluster has 1, 2$"):
        check_leaving([1, 4], {2, 1}, Counter({3: 1}))
