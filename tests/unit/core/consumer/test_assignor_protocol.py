"""The bytes of subscriptions and assignments."""

import pytest

from pykbroker.core.consumer.assignors.member import MemberSubscription
from pykbroker.core.consumer.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pykbroker.core.topic_partition import TopicPartition

FULL = MemberSubscription(frozenset({"a", "b"}), b"u", (TopicPartition("a", 1), TopicPartition("b", 0)), 5, "r1")
PLAIN = MemberSubscription(frozenset({"a", "b"}), b"u")
OWNING = MemberSubscription(FULL.topics, b"u", FULL.owned)


@pytest.mark.parametrize(
    ("version", "read"), [(0, PLAIN), (1, OWNING), (2, MemberSubscription(FULL.topics, b"u", FULL.owned, 5)), (3, FULL)]
)
def test_a_subscription_keeps_the_fields_that_its_version_has(version: int, read: MemberSubscription) -> None:
    assert decode_subscription(encode_subscription(FULL, version)) == read


def test_an_assignment_is_read_as_it_was_written() -> None:
    assert decode_assignment(encode_assignment(FULL.owned)) == list(FULL.owned)
