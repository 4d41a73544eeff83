"""The topics of classic members, compared with the answers of Apache Kafka 4.3.1 to OffsetDelete."""

from __future__ import annotations

import pytest

from pykbroker.core.group.classic.subscription import subscribed_topics
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import encode_versioned

WITHOUT_VERSION = encode_versioned(ConsumerProtocolSubscription(["t"], b"user"), 0)[2:]
USER_DATA_BYTES = 8


def subscription(version: int, rest: bytes = WITHOUT_VERSION) -> bytes:
    return version.to_bytes(2, "big", signed=True) + rest


@pytest.mark.parametrize("version", [-1, 0, 1, 2, 3, 4, 9])
def test_every_version_is_read_as_version_0(version: int) -> None:
    other = encode_versioned(ConsumerProtocolSubscription(["u", "v"]), 3)
    for rest in (WITHOUT_VERSION, WITHOUT_VERSION + b"\xff\xff\xff\xff", WITHOUT_VERSION + b"\x7f\xff\xff\xff"):
        assert subscribed_topics([subscription(version, rest), other]) == frozenset(("t", "u", "v"))


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"\0",
        subscription(0, b""),
        subscription(0, WITHOUT_VERSION[:-USER_DATA_BYTES]),
        subscription(1, WITHOUT_VERSION[:-USER_DATA_BYTES]),
        subscription(1, WITHOUT_VERSION[:-1]),
        subscription(0, b"\x7f\xff\xff\xff"),
    ],
)
def test_a_malformed_subscription_leaves_the_topics_of_the_group_unknown(malformed: bytes) -> None:
    assert subscribed_topics([subscription(1), malformed]) is None
