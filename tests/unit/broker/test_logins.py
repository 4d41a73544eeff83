"""Tests of the log-ins of a broker's listeners: credentials of the metadata, and salts of unknown users."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pykbroker.broker.logins import KINDS_MAX, ListenerLogins, kinds_of_users
from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.metadata.image import BrokerImage, ClusterImage, MetadataImage, RecordsImage
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Challenge, Computation
from pykbroker.core.security.sasl.scram import SHA_256, SHA_512, ScramHash, scram_credential
from pykbroker.core.security.sasl.settings import PLAIN_MODULE, SCRAM_USERS
from tests.unit.core.security.sasl.scram_client import final
from wire.stored.metadata_security import UserScramCredentialRecord

TEXTS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.c.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    ),
}


def listener(host: str = "127.0.0.1", protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT) -> ListenerSettings:
    return ListenerSettings("C", Address(host, 9092), protocol=protocol)


def image(*users: tuple[str, ScramHash, str]) -> MetadataImage:
    """Return the metadata with these users, each with a mechanism and a password."""
    rows = {}
    for name, of, password in users:
        made = scram_credential(of, password, b"salt", 4096)
        rows[UserScramCredentialRecord.record_type, (name, of.number)] = UserScramCredentialRecord(
            name, of.number, made.salt, made.stored_key, made.server_key, made.iterations
        )
    return MetadataImage(records=RecordsImage(by_key=rows), cluster=cluster(7, "a7", "b7"))


def cluster(node_id: int, *directories: str) -> ClusterImage:
    """Return a cluster of one broker with these directories."""
    ids = tuple(each.encode() for each in directories)
    return ClusterImage({node_id: BrokerImage(node_id, bytes(16), epoch=0, directories=ids)})


async def here(function: Callable[..., Any], *args: object) -> Any:
    """Return the result of a function, at once."""
    return function(*args)


def challenge(answer: Challenge | Computation) -> Challenge:
    """Return an answer that needs no computation."""
    assert isinstance(answer, Challenge)
    return answer


class Broker:
    """The log-ins of one broker, whose metadata a test may replace."""

    def __init__(self, cluster_id: str = "c", *users: tuple[str, ScramHash, str]) -> None:
        self.image = image(*users)
        found = ListenerLogins(lambda: self.image, cluster_id, lambda bits: 2**bits - 1, here).of(listener(), TEXTS)
        assert found is not None
        self.sasl = found

    def first(self, user: str, of: ScramHash = SHA_256) -> bytes:
        """Return the answer to a first message."""
        exchange = self.sasl.mechanisms[of.mechanism].begin("server")
        return challenge(exchange.answer(f"n,,n={user},r=client".encode())).token

    def may_log_in(self, user: str, password: str, of: ScramHash = SHA_256) -> bool:
        exchange = self.sasl.mechanisms[of.mechanism].begin(self.sasl.nonce())
        bare = f"n={user},r=client"
        try:
            first = challenge(exchange.answer(f"n,,{bare}".encode())).token
            return challenge(exchange.answer(final(of, bare, first, password))).user == user
        except AuthenticationFailed:
            return False


def test_users_log_in_with_the_credentials_of_the_metadata_and_changes_hold_for_the_next_log_in() -> None:
    broker = Broker("c", ("bob", SHA_256, "one"), ("bob", SHA_512, "two"))
    assert broker.may_log_in("bob", "one")
    assert broker.may_log_in("bob", "two", SHA_512)
    assert not broker.may_log_in("bob", "two")
    assert not broker.may_log_in("alice", "secret")  # a user of PLAIN alone
    broker.image = image(("bob", SHA_256, "three"))
    assert [broker.may_log_in("bob", each) for each in ("one", "three")] == [False, True]
    assert not broker.may_log_in("bob", "two", SHA_512)
    assert broker.sasl.mechanisms["PLAIN"].begin("").answer(b"\0alice\0secret") == Challenge(b"", "alice")


def test_all_brokers_of_a_cluster_answer_alike_about_unknown_users() -> None:
    users = (("bob", SHA_256, "one"), ("zoe", SHA_256, "two"))
    broker, other = Broker("c", *users), Broker("c", *reversed(users))
    assert broker.first("nobody") == other.first("nobody") == broker.first("nobody")
    assert broker.first("bob") == other.first("bob")
    asked = {Broker(cluster, *users).first("nobody", of) for cluster in "cd" for of in (SHA_256, SHA_512)}
    assert len(asked) == 4


def test_answers_about_unknown_users_change_with_no_user_and_follow_from_a_secret() -> None:
    broker = Broker("c", ("bob", SHA_256, "one"))
    before = broker.first("nobody")
    for users in ((), (("aaa", SHA_256, "new"), ("bob", SHA_256, "one")), (("bob", SHA_256, "changed"),)):
        broker.image = image(*users)
        assert broker.first("nobody") == before
    more = {**cluster(9, "a9").brokers, **broker.image.cluster.brokers}
    broker.image = replace(broker.image, cluster=ClusterImage(more))
    assert broker.first("nobody") == before
    broker.image = replace(broker.image, cluster=cluster(7, "another"))
    assert broker.first("nobody") != before


@pytest.mark.parametrize(
    ("of_users", "expected"),
    [((), {4096}), ((8192,), {8192}), ((8192, 4096), {4096, 8192}), ((4096,) * 3 + (16_384,), {4096, 16_384})],
)
def test_unknown_users_have_the_iterations_of_some_user(of_users: tuple[int, ...], expected: set[int]) -> None:
    broker = Broker()
    rows = {
        (UserScramCredentialRecord.record_type, (f"u{i}", 1)): UserScramCredentialRecord(f"u{i}", 1, iterations=each)
        for i, each in enumerate(of_users)
    }
    rows[UserScramCredentialRecord.record_type, ("v", 2)] = UserScramCredentialRecord("v", 2, iterations=5000)
    broker.image = MetadataImage(records=RecordsImage(by_key=rows))
    names = [f"nobody-{i}" for i in range(100)]
    assert {int(broker.first(name).rpartition(b",i=")[2]) for name in names} == expected
    assert {broker.first(name, SHA_512).rpartition(b",i=")[2] for name in names} == {b"5000"}


def test_the_kinds_of_users_are_the_most_frequent_ones_in_the_same_order_on_all_brokers() -> None:
    rows = {
        (UserScramCredentialRecord.record_type, (name, number)): UserScramCredentialRecord(
            name, number, iterations=each
        )
        for name, number, each in [("a", 2, 4096), ("a", 1, 8192), ("b", 1, 8192), ("b", 2, 4096)]
        + [(f"u{each}", 1, each) for each in range(9000, 8900, -1)]
    }
    kinds = kinds_of_users(RecordsImage(by_key=rows))
    assert list(kinds.items()) == [
        (((1, 8192), (2, 4096)), 2),
        *((((1, each),), 1) for each in range(8901, 8901 + KINDS_MAX - 1)),
    ]


def test_nonces_are_random_text_of_kafkas_length() -> None:
    nonce = Broker().sasl.nonce()
    assert (len(nonce), nonce.isalnum()) == (26, True)


@pytest.mark.parametrize(
    ("host", "protocol", "warns"),
    [
        ("127.0.0.1", SecurityProtocol.SASL_PLAINTEXT, False),
        ("127.8.8.8", SecurityProtocol.SASL_PLAINTEXT, False),
        ("::1", SecurityProtocol.SASL_PLAINTEXT, False),
        ("localhost", SecurityProtocol.SASL_PLAINTEXT, False),
        ("0.0.0.0", SecurityProtocol.SASL_PLAINTEXT, True),
        ("::", SecurityProtocol.SASL_PLAINTEXT, True),
        ("10.0.0.1", SecurityProtocol.SASL_PLAINTEXT, True),
        ("b.example", SecurityProtocol.SASL_PLAINTEXT, True),
        ("0.0.0.0", SecurityProtocol.SASL_SSL, False),
    ],
)
def test_passwords_that_others_could_read_are_warned_of(
    caplog: pytest.LogCaptureFixture, host: str, protocol: SecurityProtocol, warns: bool
) -> None:
    logins = ListenerLogins(MetadataImage, "c", lambda bits: 0, here)
    assert logins.of(listener(host, protocol), TEXTS) is not None
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.startswith("clients of C send their passwords by PLAIN to ") for line in lines] == [True] * warns
    scram = {**TEXTS, "listener.name.c.sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    assert logins.of(listener(host, protocol), scram) is not None
    assert len(caplog.records) == warns


def test_a_listener_without_sasl_has_no_log_in_and_a_wrong_config_is_an_error() -> None:
    logins = ListenerLogins(MetadataImage, "c", lambda bits: 0, here)
    assert logins.of(listener(protocol=SecurityProtocol.PLAINTEXT), {}) is None
    with pytest.raises(StartError, match="GSSAPI"):
        logins.of(listener(), {})


async def test_plain_takes_the_users_of_scram_and_computes_one_password_at_a_time() -> None:
    running: list[int] = []

    async def off_loop(function: Callable[..., Any], *args: object) -> Any:
        running.append(running[-1] + 1 if running else 1)
        await trio.testing.wait_all_tasks_blocked()
        running.append(running[-1] - 1)
        return function(*args)

    by_scram = TEXTS["listener.name.c.plain.sasl.jaas.config"].replace('user_alice="secret"', "scram_users=true")
    texts = {**TEXTS, "listener.name.c.plain.sasl.jaas.config": by_scram}
    known = image(("bob", SHA_256, "one"))
    sasl = ListenerLogins(lambda: known, "c", lambda bits: 0, off_loop).of(listener(), texts)
    assert sasl is not None
    found = dict[str, str | None]()

    async def log_in(password: str) -> None:
        answer = sasl.mechanisms["PLAIN"].begin("").answer(f"\0bob\0{password}".encode())
        assert isinstance(answer, Computation)
        client: Any = SimpleNamespace(
            session=SimpleNamespace(client_host="h"), ended=password.startswith("of a client")
        )
        computed = await sasl.compute(client, answer.compute)
        if computed is None:
            gone.append(password)
            return
        with suppress(AuthenticationFailed):
            found[password] = answer.answer(computed).user

    gone: list[str] = []
    async with trio.open_nursery() as nursery:
        for password in ("one", "two", "of a client that has gone", "three"):
            nursery.start_soon(log_in, password)
    assert gone == ["of a client that has gone"]
    assert (found, running) == ({"one": "bob"}, [1, 0] * 3)


@pytest.mark.parametrize("of", [SHA_256, SHA_512])
def test_the_password_of_an_unknown_user_is_checked_as_those_of_the_others(of: ScramHash) -> None:
    texts = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.c.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {SCRAM_USERS}=true;",
    }
    metadata = image(("bob", of, "one"))
    found = ListenerLogins(lambda: metadata, "c", lambda bits: 2**bits - 1, here).of(listener(), texts)
    assert found is not None
    answers = [found.mechanisms["PLAIN"].begin("").answer(f"\0{user}\0p".encode()) for user in ("bob", "nobody")]
    assert [len(answer.compute()) for answer in answers if isinstance(answer, Computation)] == [of.bytes] * 2
