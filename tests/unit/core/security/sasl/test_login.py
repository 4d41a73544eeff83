"""Tests of the states of a log-in: all orders of messages against a model, lifetimes, and re-authentication."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pykbroker.core.security.sasl.login import (
    MS_NS,
    REAUTHENTICATION_NS_MIN,
    Action,
    Identity,
    Login,
    LoginState,
    RequestKind,
)
from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Challenge
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.secret import Secret

TOKENS = {"t": b"\0alice\0secret", "b": b"\0bob\0secret", "w": b"\0alice\0wrong"}
MECHANISMS = {"H": ("PLAIN", 1), "R": ("PLAIN", 0), "L": ("OTHER", 1), "X": ("NONE", 1)}
EVENTS = "VvHRLXtbwO"
"""ApiVersions answered and with an error; SaslHandshake for each mechanism; tokens; and any other API."""
ENDED = "ended"
MODEL = re.compile(r"v*V?[HRL][tb]")
"""Exactly these sequences log a client in."""


def plain() -> Plain:
    return Plain({"alice": Secret("secret"), "bob": Secret("secret")})


def login(before: Identity | None = None, reauth_ms: int = 0) -> Login:
    return Login({"PLAIN": plain(), "OTHER": plain()}, {"PLAIN": reauth_ms}, 1000, before)


def step(of: Login, event: str) -> str:
    """Return what a connection does with an event, as `server.sasl_table` does it."""
    if event in MECHANISMS:
        action = of.action(RequestKind.HANDSHAKE)
    elif event in TOKENS:
        action = of.action(RequestKind.TOKEN)
    else:
        action = of.action(RequestKind.OTHER if event == "O" else RequestKind.VERSIONS)
    if action is not Action.ANSWER:
        return action.name if action is Action.REFUSE_ONLY else ENDED
    try:
        if event in MECHANISMS:
            of.handshake(*MECHANISMS[event], "nonce")
        elif event in TOKENS:
            of.token(TOKENS[event], 5000)
        elif of.state is not LoginState.COMPLETE and event != "O":
            of.versions_answered(is_error=event == "v")
    except AuthenticationFailed:
        return ENDED
    return action.name


def every_sequence(begin: Callable[[], Login], length: int, is_accepted: Callable[[str], bool]) -> int:
    """Check all sequences of `length` events against a model, and return their number.

    A sequence whose begin ends the connection, or logs the client in, stands for all that begin like it.
    """
    checked, beginnings = 0, [""]
    while beginnings:
        sequence = beginnings.pop()
        for event in EVENTS:
            of = begin()
            for earlier in sequence:
                assert step(of, earlier) != ENDED
            outcome = step(of, event)
            tried = sequence + event
            is_complete = of.state is LoginState.COMPLETE
            assert is_complete == (of.identity is not None) == is_accepted(tried), tried
            if outcome == ENDED or is_complete or len(tried) == length:
                checked += len(EVENTS) ** (length - len(tried))
            else:
                beginnings.append(tried)
    return checked


def test_all_orders_of_messages_log_in_exactly_as_the_model() -> None:
    length = 9
    assert every_sequence(login, length, lambda tried: MODEL.fullmatch(tried) is not None) == len(EVENTS) ** length


@pytest.mark.parametrize(("mechanism", "user", "accepted"), [("PLAIN", "alice", "[HR]t"), ("OTHER", "bob", "Lb")])
def test_a_client_authenticates_again_only_as_the_same_user_by_the_same_mechanism(
    mechanism: str, user: str, accepted: str
) -> None:
    model, length = re.compile(accepted), 7
    found = every_sequence(
        lambda: login(Identity(user, mechanism)), length, lambda tried: model.fullmatch(tried) is not None
    )
    assert found == len(EVENTS) ** length


def test_a_client_that_has_logged_in_may_send_everything_but_sasl() -> None:
    of = login()
    assert [step(of, event) for event in "Ht"] == ["ANSWER", "ANSWER"]
    answered = {event: step(of, event) for event in EVENTS}
    assert answered == {event: "REFUSE_ONLY" if event in "HRLXtbw" else "ANSWER" for event in EVENTS}
    assert of.identity == Identity("alice", "PLAIN")


def test_a_log_in_that_failed_is_over() -> None:
    of = login()
    assert [step(of, event) for event in "Hw"] == ["ANSWER", ENDED]
    for event in EVENTS:
        assert (step(of, event), of.state) == (ENDED, LoginState.FAILED)


def test_a_fault_of_a_mechanism_lets_no_one_in() -> None:
    class Faulty:
        def begin(self, nonce: str) -> Faulty:
            return self

        def answer(self, token: bytes) -> Challenge:
            raise ZeroDivisionError

    of = Login({"PLAIN": Faulty()}, {}, 0)
    of.handshake("PLAIN", 1, "")
    with pytest.raises(ZeroDivisionError):
        of.token(b"", 0)
    assert (of.state, of.identity) == (LoginState.FAILED, None)


@pytest.mark.parametrize(
    ("reauth_ms", "credential_ms", "lifetime_ms"),
    [
        (0, None, None),
        (-1, None, None),
        (1, None, 1),
        (3000, None, 3000),
        (0, 500, 500),
        (3000, 2999, 2999),
        (3000, 3001, 3000),
        (3000, 0, 0),
        (0, -7, 0),
    ],
)
def test_a_session_lives_as_long_as_the_shorter_of_both_limits(
    reauth_ms: int, credential_ms: int | None, lifetime_ms: int | None
) -> None:
    class Lasting:
        def begin(self, nonce: str) -> Lasting:
            return self

        def answer(self, token: bytes) -> Challenge:
            return Challenge(b"x", "alice", credential_ms)

    of = Login({"PLAIN": Lasting()}, {"PLAIN": reauth_ms}, 0)
    of.handshake("PLAIN", 1, "")
    of.token(b"", 7)
    assert of.lifetime_ms == (lifetime_ms or 0)
    assert of.expires_at == (None if lifetime_ms is None else 7 + lifetime_ms * MS_NS)
    assert of.may_begin_again(7) == (lifetime_ms is not None)


def test_a_client_may_authenticate_again_at_any_time_and_then_once_a_second() -> None:
    first = login(reauth_ms=3000)
    assert [step(first, event) for event in "Ht"] == ["ANSWER", "ANSWER"]
    assert first.may_begin_again(5000)
    second = first.again(5000)
    assert (second.state, second.before) == (LoginState.REAUTHENTICATION, Identity("alice", "PLAIN"))
    assert [step(second, event) for event in "Ht"] == ["ANSWER", "ANSWER"]
    due = 5000 + REAUTHENTICATION_NS_MIN
    assert [second.may_begin_again(now) for now in (5001, due - 1, due, due + 1)] == [False, False, True, True]
    assert not login().may_begin_again(due)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (None, "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"),
        (
            Identity("alice", "PLAIN"),
            "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN",
        ),
    ],
)
def test_a_failure_without_a_text_of_its_own_has_kafkas(before: Identity | None, message: str) -> None:
    of = login(before)
    of.handshake("PLAIN", 1, "")
    assert of.message(AuthenticationFailed("a reason for the log")) == message
    assert of.message(AuthenticationFailed("", message="a text")) == "a text"


def test_another_principal_is_refused_with_kafkas_text() -> None:
    of = login(Identity("alice", "PLAIN"))
    of.handshake("PLAIN", 1, "")
    with pytest.raises(AuthenticationFailed) as raised:
        of.token(TOKENS["b"], 0)
    assert of.message(raised.value) == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (of.state, of.identity) == (LoginState.FAILED, None)
