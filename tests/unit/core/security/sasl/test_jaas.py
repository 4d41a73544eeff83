"""Tests of the parser of JAAS lines."""

from __future__ import annotations

import pytest

from pykbroker.core.security.sasl.jaas import parse_jaas
from pykbroker.core.security.secret import Secret
from wire.declare import HIDDEN

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", {}),
        ('user_alice="a secret" user_bob=plain-word_1.$', {"user_alice": "a secret", "user_bob": "plain-word_1.$"}),
        ("user_a='it''s'='x'", {"user_a": "it", "s": "x"}),
        ("a='\"' b=\"'\"", {"a": '"', "b": "'"}),
        (r'a="\"\\\n\t\101\0x\7y\4777"', {"a": "\"\\\n\tA\0x\7y'77"}),
        (
            "a=b // the rest is a comment; x=y\nc=d /* x=\ny */ e=f / also one\n g=h",
            {"a": "b", "c": "d", "e": "f", "g": "h"},
        ),
        ("user_ä=ö\u4e2d", {"user_ä": "ö\u4e2d"}),
        ("a=1b", None),  # Java's tokenizer reads a number, which has no text
        ('a="b" a="c"', {"a": "c"}),
    ],
)
def test_options_have_the_values_that_java_reads(options: str, found: dict[str, str] | None) -> None:
    line = f"\n {PLAIN} Required {options}\n;"
    if found is None:
        with pytest.raises(ValueError, match="no value"):
            parse_jaas(line)
        return
    module = parse_jaas(line)
    assert module.name == PLAIN
    assert {name: secret.reveal() for name, secret in module.options.items()} == found


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "0 login modules"),
        ("// nothing", "0 login modules"),
        ("A required; B required;", "2 login modules"),
        ("A", "followed by one of required"),
        ("A perhaps;", "followed by one of required"),
        ('A required a="canary"', "does not end with ';'"),
        ('A required a="canary" b;', "after 1 others has no value"),
        ('A required a="canary" b=;', "after 1 others has no value"),
        ('A required a="canary" =b;', "begins with '='"),
        ('A required a="canary\n";', "begins with '\"'|no value|does not end"),
        ("= required;", "does not begin with the class"),
    ],
)
def test_a_line_that_kafka_refuses_is_refused_without_a_word_of_its_secrets(line: str, error: str) -> None:
    with pytest.raises(ValueError, match=error) as raised:
        parse_jaas(line)
    assert "canary" not in str(raised.value)


def test_a_secret_shows_itself_only_when_it_is_asked_to() -> None:
    secret = Secret("canary")
    module = parse_jaas('A required user_a="canary";')
    assert f"{secret!r} {secret} {module}".count(HIDDEN) == 3
    assert "canary" not in f"{secret!r} {secret} {module} {vars(type(secret))}"
    assert secret.is_equal("canary")
    assert not any(map(secret.is_equal, ("", "canar", "canary ", "Canary", "\udc80")))
    assert secret == Secret("canary") != Secret("other")
    assert len({secret, Secret("canary"), Secret("other")}) == 2
