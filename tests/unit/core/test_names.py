"""Topic names: Kafka's rules and error messages."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.names import check_topic_name, collision_key, is_internal
from wire.error_codes import ErrorCode

LONGEST = "a" * 249


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__consumer_offsets", LONGEST])
def test_valid_topic_names_are_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        (LONGEST + "a", f"the length of '{LONGEST}a' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_invalid_topic_names_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message == f"Topic name is invalid: {reason}"


def test_topics_with_the_same_metric_name_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a.b") != collision_key("a-b")
    assert collision_key("ab") is None


def test_internal_topics_are_recognized() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__cluster_metadata")
    assert not is_internal("__mine")
