"""Tests of the mechanism PLAIN, with the texts of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from pykbroker.core.security.sasl.mechanism import AuthenticationFailed
from pykbroker.core.security.sasl.plain import Plain, plain_users
from pykbroker.core.security.secret import Secret

USERS = {"alice": Secret("alice-secret"), "bob": Secret("b:o b"), "zoë": Secret("Straße")}
INVALID = "Authentication failed: Invalid username or password"
OTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0alice-secret", "alice"),
        (b"alice\0alice\0alice-secret", "alice"),
        (b"\0bob\0b:o b", "bob"),
        ("\0zoë\0Straße".encode(), "zoë"),
    ],
)
def test_a_user_with_the_right_password_logs_in(token: bytes, user: str) -> None:
    answer = Plain(USERS).begin("").answer(token)
    assert (answer.token, answer.user, answer.lifetime_ms) == (b"", user, None)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", INVALID),
        (b"\0alice\0alice-secre", INVALID),
        (b"\0alice\0alice-secrett", INVALID),
        (b"\0Alice\0alice-secret", INVALID),
        (b"\0nobody\0alice-secret", INVALID),
        (b"\0\xff\0alice-secret", INVALID),
        (b"bob\0alice\0wrong", INVALID),
        (b"bob\0alice\0alice-secret", OTHER_ID),
        (b"\xff\0alice\0alice-secret", OTHER_ID),
    ],
)
def test_a_wrong_token_is_refused_with_kafkas_text(token: bytes, message: str) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        Plain(USERS).answer(token)
    assert raised.value.message == message


def test_every_split_of_a_token_by_nul_bytes_logs_in_only_with_the_right_three_parts() -> None:
    accepted = []
    for parts in range(1, 7):
        for i in range(3**parts):
            words = [("", "alice", "alice-secret")[i // 3**j % 3] for j in range(parts)]
            try:
                accepted.append((words, Plain(USERS).answer("\0".join(words).encode()).user))
            except AuthenticationFailed:
                pass
    assert accepted == [(["", "alice", "alice-secret"], "alice"), (["alice", "alice", "alice-secret"], "alice")]


def test_the_users_are_the_options_whose_names_say_so() -> None:
    options = {"user_a": Secret("1"), "username": Secret("2"), "user_user_b": Secret("3"), "password": Secret("4")}
    assert plain_users(options) == {"a": Secret("1"), "user_b": Secret("3")}
