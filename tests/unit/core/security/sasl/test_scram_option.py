"""Tests of the credentials of the option --add-scram."""

from __future__ import annotations

from base64 import b64encode

import pytest

from pykbroker.core.security.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, SHA_256, SHA_512, scram_credential
from pykbroker.core.security.sasl.scram_option import parse_scram_option


def salt() -> bytes:
    return b"new"


def test_a_password_is_salted_with_the_salt_of_the_option_or_a_new_one() -> None:
    record = parse_scram_option("SCRAM-SHA-256=[name=bob,password=secret]", salt)
    made = scram_credential(SHA_256, "secret", b"new", ITERATIONS_MIN)
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("bob", 1, ITERATIONS_MIN, b"new")
    assert (record.stored_key, record.server_key) == (made.stored_key, made.server_key)
    text = f' SCRAM-SHA-512 = [ name="b=o" , password="s e=c" , salt={b64encode(b"own").decode()} , iterations=8192 ] '
    record = parse_scram_option(text, salt)
    made = scram_credential(SHA_512, "s e=c", b"own", 8192)
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("b=o", 2, 8192, b"own")
    assert (record.stored_key, record.server_key) == (made.stored_key, made.server_key)


def test_a_salted_password_is_what_kafka_derives_from_the_password() -> None:
    # observed: kafka-storage of Kafka 4.3.1 prints these keys for bob and bob-secret with this salt
    stored_key = bytes(
        b & 255
        for b in (
            -126,
            115,
            -20,
            66,
            114,
            -87,
            -33,
            -31,
            -79,
            -120,
            115,
            49,
            -90,
            -39,
            112,
            1,
            101,
            -7,
            106,
            96,
            -116,
            -120,
            -47,
            103,
            -7,
            -38,
            24,
            94,
            58,
            43,
            22,
            17,
        )
    )
    kafka_salt = b64encode(b"1hghwe1uwuqwjk3mhj14ur8nn8").decode()
    record = parse_scram_option(f"SCRAM-SHA-256=[name=bob,password=bob-secret,salt={kafka_salt}]", salt)
    assert record.stored_key == stored_key


@pytest.mark.parametrize(
    ("iterations", "is_allowed"),
    [(ITERATIONS_MIN - 1, False), (ITERATIONS_MIN, True), (ITERATIONS_MAX, True), (ITERATIONS_MAX + 1, False)],
)
def test_iterations_have_limits(iterations: int, is_allowed: bool) -> None:
    text = f"SCRAM-SHA-256=[name=bob,salt=eA==,saltedpassword=eHh4,iterations={iterations}]"
    if is_allowed:
        assert parse_scram_option(text, salt).iterations == iterations
        return
    with pytest.raises(ValueError, match=f"iterations is {iterations}, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"):
        parse_scram_option(text, salt)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "begins with one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("PLAIN=[name=bob,password=canary]", "begins with one of"),
        ("SCRAM-SHA-256", "is followed by"),
        ("SCRAM-SHA-256=name=bob,password=canary", "is followed by"),
        ("SCRAM-SHA-256=[password=canary]", "has no name"),
        ("SCRAM-SHA-256=[name=,password=canary]", "has no name"),
        (f"SCRAM-SHA-256=[name={'u' * 32_763},password=canary]", "has a name of more than 32,762 characters"),
        ("SCRAM-SHA-256=[name=bob]", "has one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=bob,password=canary,saltedpassword=canary]", "has one of"),
        ("SCRAM-SHA-256=[name=bob,saltedpassword=canary]", "without its salt"),
        ("SCRAM-SHA-256=[name=bob,saltedpassword=canary!,salt=eA==]", "in base64"),
        ("SCRAM-SHA-256=[name=bob,password=canary,iterations=x]", "is a number"),
        ("SCRAM-SHA-256=[name=bob,password=canary,name=bob]", "each once"),
        ("SCRAM-SHA-256=[name=bob,password=canary,other=x]", "takes name, password"),
        ("SCRAM-SHA-256=[name=bob,password=can,ary]", "each once and with a value"),
    ],
)
def test_another_option_is_refused_without_its_password(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error) as raised:
        parse_scram_option(text, salt)
    assert "canary" not in str(raised.value)
