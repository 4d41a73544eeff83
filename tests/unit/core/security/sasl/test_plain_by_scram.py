"""Tests of PLAIN for the users of SCRAM: the same passwords, the same texts, and what is remembered."""

from __future__ import annotations

import pytest

from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Challenge, Computation
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.sasl.scram import (
    SHA_256,
    SHA_512,
    Kind,
    ScramCredential,
    ScramHash,
    UnknownUsers,
    scram_credential,
    unknown_credential,
)
from pykbroker.core.security.secret import Secret

INVALID = "Authentication failed: Invalid username or password"


class Users:
    """PLAIN for users whose credentials a test changes. It counts the computations."""

    def __init__(self) -> None:
        self.credentials: dict[tuple[ScramHash, str], ScramCredential] = {}
        self.plain = PlainByScram(
            lambda of, user: self.credentials.get((of, user)), lambda: UnknownUsers(b"secret"), b"key"
        )
        self.computations = 0

    def set(self, user: str, password: str, of: ScramHash = SHA_256, salt: bytes = b"salt") -> None:
        self.credentials[of, user] = scram_credential(of, password, salt, 4096)

    def log_in(self, token: bytes) -> str:
        """Return the user, or the text for the client."""
        try:
            answer = self.plain.begin("").answer(token)
            if isinstance(answer, Computation):
                self.computations += 1
                answer = answer.answer(answer.compute())
        except AuthenticationFailed as error:
            return error.message or ""
        assert answer.user is not None
        return answer.user


@pytest.fixture
def users() -> Users:
    found = Users()
    found.set("alice", "alice-secret")
    found.set("zoë", "Straße", SHA_512)
    return found


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0alice-secret",
        b"alice\0alice\0alice-secret",
        b"bob\0alice\0alice-secret",
        b"bob\0alice\0wrong",
        b"\0alice\0",
        b"\0\0alice-secret",
        b"alice",
        b"\0" * 9,
        b"\0nobody\0alice-secret",
        b"\0\xff\0\xff",
        "\0zoë\0Straße".encode(),
        "\0zoë\0Strasse".encode(),
    ],
)
def test_each_token_is_answered_as_by_plain_with_the_passwords(users: Users, token: bytes) -> None:
    plain = Plain({"alice": Secret("alice-secret"), "zoë": Secret("Straße")})
    try:
        expected = plain.answer(token).user
    except AuthenticationFailed as error:
        expected = error.message
    assert [users.log_in(token) for _ in range(2)] == [expected] * 2


def test_only_a_password_that_was_right_is_not_computed_again(users: Users) -> None:
    for _ in range(3):
        assert users.log_in(b"\0alice\0alice-secret") == "alice"
    assert users.computations == 1
    for token in (b"\0alice\0wrong", b"\0nobody\0alice-secret", b"\0zo\xc3\xab\0alice-secret"):
        before = users.computations
        assert [users.log_in(token) for _ in range(2)] == [INVALID] * 2
        assert users.computations == before + 2  # so that the time tells neither a user nor a password


def test_a_changed_or_removed_credential_holds_for_the_next_log_in(users: Users) -> None:
    assert users.log_in(b"\0alice\0alice-secret") == "alice"
    users.set("alice", "new")
    assert users.log_in(b"\0alice\0alice-secret") == INVALID
    assert users.log_in(b"\0alice\0new") == "alice"
    users.set("alice", "new", salt=b"other")
    assert users.log_in(b"\0alice\0new") == "alice"
    assert users.computations == 4
    del users.credentials[SHA_256, "alice"]
    assert users.log_in(b"\0alice\0new") == INVALID


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_credential_that_is_changed_while_a_password_is_computed_holds(users: Users, is_removed: bool) -> None:
    answer = users.plain.answer(b"\0alice\0alice-secret")
    assert isinstance(answer, Computation)
    computed = answer.compute()
    if is_removed:
        del users.credentials[SHA_256, "alice"]
    else:
        users.set("alice", "new")
    with pytest.raises(AuthenticationFailed, match=INVALID):
        answer.answer(computed)
    assert users.log_in(b"\0alice\0alice-secret") == INVALID


def test_neither_few_iterations_nor_the_keys_of_an_unknown_user_let_anyone_in(users: Users) -> None:
    users.credentials[SHA_256, "weak"] = scram_credential(SHA_256, "p", b"salt", 4095)
    assert [users.log_in(b"\0weak\0p") for _ in range(2)] == [INVALID] * 2
    answer = users.plain.answer(b"\0nobody\0p")
    assert isinstance(answer, Computation)
    with pytest.raises(AuthenticationFailed):
        answer.answer(unknown_credential(SHA_256, "nobody", UnknownUsers(b"secret")).stored_key)


ONLY_256, BOTH, ONLY_512 = ((1, 4096),), ((1, 4096), (2, 8192)), ((2, 4096),)


@pytest.mark.parametrize(
    ("kinds", "share_of_512"),
    [
        ({}, 0),
        ({ONLY_256: 9}, 0),
        ({ONLY_512: 9}, 1),
        ({BOTH: 1, ONLY_512: 1}, 0.5),
        ({ONLY_256: 60, BOTH: 30, ONLY_512: 10}, 0.1),
    ],
)
def test_the_password_of_an_unknown_user_takes_as_long_as_that_of_any_other(
    kinds: dict[Kind, int], share_of_512: float
) -> None:
    plain = PlainByScram(lambda of, user: None, lambda: UnknownUsers(b"secret", kinds), b"key")
    found = [plain._credential(f"nobody-{number}") for number in range(2000)]
    assert sum(of is SHA_512 for of, _, _ in found) / len(found) == pytest.approx(share_of_512, abs=0.03)
    assert {credential.iterations for _, credential, _ in found} == {4096}
    answer = plain.answer(b"\0nobody-0\0p")
    assert isinstance(answer, Computation)
    assert len(answer.compute()) == found[0][0].bytes


def test_nothing_that_is_kept_has_a_password(users: Users) -> None:
    assert isinstance(users.plain.answer(b"\0alice\0alice-secret"), Computation)
    assert users.log_in(b"\0alice\0alice-secret") == "alice"
    assert users.plain.answer(b"\0alice\0alice-secret") == Challenge(b"", "alice")
    assert "alice-secret" not in repr(vars(users.plain))
