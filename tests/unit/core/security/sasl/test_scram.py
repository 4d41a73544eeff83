"""Tests of SCRAM: the vectors of the RFCs, wrong messages, and what a stranger may learn about users."""

from __future__ import annotations

import tracemalloc
from base64 import b64decode, b64encode
from contextlib import suppress

import pytest

from pykbroker.core.security.sasl.mechanism import CLAIM_CHARS_MAX, AuthenticationFailed
from pykbroker.core.security.sasl.scram import (
    ITERATIONS_MIN,
    SHA_256,
    SHA_512,
    Scram,
    ScramCredential,
    ScramExchange,
    ScramHash,
    UnknownUsers,
    scram_credential,
    unknown_credential,
)
from tests.unit.core.security.sasl.rfc import of_the_rfcs
from tests.unit.core.security.sasl.scram_client import final

KEPT_BYTES = 4_000
SALT = b"1hghwe1uwuqwjk3mhj14ur8nn8"
CREDENTIALS = {of: scram_credential(of, "secret", SALT, ITERATIONS_MIN) for of in (SHA_256, SHA_512)}
OTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"


def begin(
    of: ScramHash = SHA_256, *, credential: ScramCredential | None = None, secret: bytes = b"key"
) -> ScramExchange:
    """Return the exchange of a broker with the users `bob` and `b,o=b`."""
    users = dict.fromkeys(("bob", "b,o=b"), credential or CREDENTIALS[of])
    return Scram(of, users.get, lambda: UnknownUsers(secret)).begin("server")


@of_the_rfcs
def test_the_exchange_of_the_rfc(of: ScramHash, salt: str, nonces: tuple[str, str], proof: str, signature: str) -> None:
    credential = scram_credential(of, "pencil", b64decode(salt), 4096)
    exchange = Scram(of, {"user": credential}.get, lambda: UnknownUsers(b"")).begin(nonces[1])
    nonce = "".join(nonces)
    first = exchange.answer(f"n,,n=user,r={nonces[0]}".encode())
    assert (first.token.decode(), first.user) == (f"r={nonce},s={salt},i=4096", None)
    last = exchange.answer(f"c=biws,r={nonce},p={proof}".encode())
    assert (last.token.decode(), last.user) == (f"v={signature}", "user")


@pytest.mark.parametrize("of", [SHA_256, SHA_512])
@pytest.mark.parametrize(
    ("header", "bare", "user"),
    [
        ("n,,", "n=bob,r=client", "bob"),
        ("n,a=bob,", "n=bob,r=client", "bob"),
        ("n,,", "n=b=2Co=3Db,r=client", "b,o=b"),
        ("n,,m=must,", "n=bob,r=client", "bob"),  # as in Kafka, whose proof does not include it either
        ("n,,", "n=bob,r=client,x=y", "bob"),
        ("n,,", "n=bob,r=client,tokenauth=false", "bob"),
    ],
)
def test_a_client_that_knows_the_password_logs_in(of: ScramHash, header: str, bare: str, user: str) -> None:
    exchange = begin(of)
    first = exchange.answer((header + bare).encode()).token
    assert first == b"r=clientserver,s=" + b64encode(SALT) + b",i=4096"
    answer = exchange.answer(final(of, bare, first))
    assert (answer.user, answer.lifetime_ms) == (user, None)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "zzz",
        "y,,n=bob,r=client",
        "p=tls-unique,,n=bob,r=client",
        "n,n=bob,r=client",
        "n,,r=client",
        "n,,n=,r=client",
        "n,,n=bob,r=",
        "n,,n=bob,r=a b",
        "n,,n=bob",
        "n,,n=b=ob,r=client",
        "n,,n=b=3dob,r=client",
        "n,,n=zoë,r=client",
        "n,,n=bob,r=client,tokenauth",
        "n,,n=bob,r=client,tokenauth=true",
        "n,,n=bob,r=client\n",
        "n,a=,n=bob,r=client",
    ],
)
def test_a_wrong_first_message_is_refused(message: str) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        begin().answer(message.encode())
    assert raised.value.message is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c=biws", "c=eSws"),
        ("clientserver", "clientserver2"),
        ("clientserver", "client"),
        ("clientserver", "server"),
        (",p=", ",p=AAAA"),
        (",p=", ",p=*"),
        (",p=", ",p=é"),
        ("c=biws", "c=biwsb"),
        ("c=biws", "c=*"),
        (",p=", ",q="),
        ("c=", "d="),
        ("=", ""),
    ],
)
def test_a_changed_final_message_is_refused(old: str, new: str) -> None:
    exchange = begin()
    message = final(SHA_256, "n=bob,r=client", exchange.answer(b"n,,n=bob,r=client").token).decode()
    assert old in message
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.answer(message.replace(old, new).encode())
    assert raised.value.message is None


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        ("n,,n=", "a", ",r=client"),
        ("n,,n=", "a", ""),
        ("n,,n=", "=2C", ""),
        ("n,a=", "a", ",n=bob"),
        ("n,,n=bob,r=client", ",a=b", "\0"),
        ("c=biws,r=clientserver", ",p=b", ""),
        ("c=", "biws", ""),
        ("c=biws,r=clientserver,p=", "biws", "!"),
    ],
)
def test_a_message_of_half_a_megabyte_is_read_in_little_memory(start: str, part: str, end: str) -> None:
    exchange = begin()
    if start.startswith("c="):
        exchange.answer(b"n,,n=bob,r=client")
    message = (start + part * (500_000 // len(part)) + end).encode()
    tracemalloc.start()
    try:
        with suppress(AuthenticationFailed):
            exchange.answer(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(message)  # a pattern that keeps each position takes more than a hundred times as much


@pytest.mark.parametrize("size", [0, 3, 27, 33])
def test_a_proof_of_another_length_is_refused(size: int) -> None:
    exchange = begin()
    exchange.answer(b"n,,n=bob,r=client")
    with pytest.raises(AuthenticationFailed):
        exchange.answer(b"c=biws,r=clientserver,p=" + b64encode(bytes(size)))


def test_a_proof_that_was_overheard_is_worth_nothing_in_another_exchange() -> None:
    exchange = begin()
    message = final(SHA_256, "n=bob,r=client", exchange.answer(b"n,,n=bob,r=client").token)
    assert exchange.answer(message).user == "bob"
    other = Scram(SHA_256, {"bob": CREDENTIALS[SHA_256]}.get, lambda: UnknownUsers(b"")).begin("server2")
    other.answer(b"n,,n=bob,r=client")
    with pytest.raises(AuthenticationFailed):
        other.answer(message)
    with pytest.raises(AuthenticationFailed):
        other.answer(message.replace(b"clientserver", b"clientserver2"))


def test_a_credential_with_too_few_iterations_lets_no_one_in() -> None:
    for iterations, expected in ((ITERATIONS_MIN - 1, None), (ITERATIONS_MIN, "bob"), (ITERATIONS_MIN + 1, "bob")):
        exchange = begin(credential=scram_credential(SHA_256, "secret", SALT, iterations))
        message = final(SHA_256, "n=bob,r=client", exchange.answer(b"n,,n=bob,r=client").token)
        user = None
        try:
            user = exchange.answer(message).user
        except AuthenticationFailed:
            pass
        assert user == expected


@pytest.mark.parametrize("password", [None, "other"])
def test_a_credential_that_is_changed_between_the_messages_holds(password: str | None) -> None:
    users = {"bob": CREDENTIALS[SHA_256]}
    exchange = Scram(SHA_256, users.get, lambda: UnknownUsers(b"key")).begin("server")
    message = final(SHA_256, "n=bob,r=client", exchange.answer(b"n,,n=bob,r=client").token)
    del users["bob"]
    if password is not None:
        users["bob"] = scram_credential(SHA_256, password, SALT, ITERATIONS_MIN)
    with pytest.raises(AuthenticationFailed, match="the password is wrong"):
        exchange.answer(message)


@pytest.mark.parametrize("name", ["bob", "nobody"])
def test_an_unknown_user_fails_like_a_known_one_with_a_wrong_password(name: str) -> None:
    exchange = begin()
    first = exchange.answer(f"n,,n={name},r=client".encode()).token
    assert first.startswith(b"r=clientserver,s=")
    assert first.endswith(b",i=4096")
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.answer(final(SHA_256, f"n={name},r=client", first, "wrong"))
    assert (raised.value.message, raised.value.reason) == (None, "the user is unknown, or the password is wrong")
    with pytest.raises(AuthenticationFailed) as raised:
        begin().answer(f"n,a=other,n={name},r=client".encode())
    assert raised.value.message == OTHER_ID


def test_an_unknown_user_has_a_salt_of_its_own_the_same_each_time() -> None:
    salts = {
        (of, user, unknown): unknown_credential(of, user, unknown).salt
        for of in (SHA_256, SHA_512)
        for user in ("a", "b", "a\0")
        for unknown in (UnknownUsers(b"1"), UnknownUsers(b"2"))
    }
    assert len(set(salts.values())) == len(salts)
    assert all(salt == unknown_credential(*key).salt for key, salt in salts.items())
    assert all(20 <= len(salt) <= 26 and salt.isalnum() and salt.islower() for salt in salts.values())
    assert begin().answer(b"n,,n=x,r=1").token == begin().answer(b"n,,n=x,r=1").token


def test_unknown_users_have_the_iterations_of_all_others_and_few_get_other_ones_when_users_change() -> None:
    kinds = {((1, 4096), (2, 4096)): 70, ((1, 8192),): 20, ((2, 16_384),): 10}
    before, after = UnknownUsers(b"1", kinds), UnknownUsers(b"1", {**kinds, ((1, 8192),): 22})
    names = [f"nobody-{number}" for number in range(5000)]
    made = {name: unknown_credential(SHA_256, name, before).iterations for name in names}
    assert sum(each == 8192 for each in made.values()) / len(names) == pytest.approx(20 / 90, abs=0.02)
    assert set(made.values()) == {4096, 8192}
    assert {dict(before.kind_of(name)).get(1, made[name]) for name in names} == {4096, 8192}
    assert all(dict(before.kind_of(name)).get(1, made[name]) == made[name] for name in names)  # PLAIN and SCRAM agree
    changed = [name for name in names if unknown_credential(SHA_256, name, after).iterations != made[name]]
    assert {made[name] for name in changed} == {4096}
    assert len(changed) / len(names) < 0.03


def test_no_repr_has_a_key() -> None:
    credential = CREDENTIALS[SHA_256]
    shown = repr(credential) + repr(begin()) + str(AuthenticationFailed("reason", user="bob"))
    for key in (credential.stored_key, credential.server_key, credential.salt):
        assert repr(key)[2:-1] not in shown


@pytest.mark.parametrize("first", ["n,,n=bob,r={}", "n,,n={},r=nonce", "n,,n=bob,r=nonce,x={}"])
def test_a_log_in_that_is_not_over_keeps_nothing_of_a_long_message(first):
    message = first.format("x" * 200_000).encode()
    begin().answer(b"n,,n=bob,r=nonce")  # what is made once
    tracemalloc.start()
    try:
        exchange = begin()
        exchange.answer(message)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < KEPT_BYTES
    with pytest.raises(AuthenticationFailed):
        exchange.answer(b"c=biws,r=nonceserver,p=")


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_the_beginning_of_a_claimed_name_is_kept_for_the_log(size):
    name = "u" * (CLAIM_CHARS_MAX + size)
    exchange = begin()
    exchange.answer(f"n,,n={name},r=nonce".encode())
    with pytest.raises(AuthenticationFailed) as refused:
        exchange.answer(b"c=biws,r=nonceserver,p=")
    assert refused.value.user == name[:CLAIM_CHARS_MAX]
