"""Tests of the options `--user` and `--authorize`."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pykbroker.cli.new_users import new_users
from pykbroker.cli.start.options import Options
from pykbroker.cli.start.users import remarks
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.secret import Secret
from pykbroker.core.settings import Serving

PLAIN_BY_SCRAM = "org.apache.kafka.common.security.plain.PlainLoginModule required scram_users=true;"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def users(texts: list[str]) -> tuple[NewUser, ...]:
    return new_users(texts, "--user")


def test_a_user_has_a_password_of_the_option_or_of_a_file_or_gets_one(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# people\n\nbob:with:colons \ncarol\n")
    alice, bob, carol = users(["alice:secret", f"@{file}"])
    assert users(["zoe:zoë"])[0].password == Secret("zoë")
    assert (alice.name, alice.password, alice.is_generated) == ("alice", Secret("secret"), False)
    assert (bob.name, bob.password, bob.is_generated) == ("bob", Secret("with:colons "), False)
    assert (carol.name, len(carol.password.reveal()), carol.is_generated) == ("carol", 16, True)
    assert carol.password != users(["carol"])[0].password
    assert "secret" not in repr(alice)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([":secret"], "a user is NAME"),
        (["alice:"], "a user is NAME"),
        (["zoë:secret"], "with a name in ASCII"),
        (["a\nb:secret"], "a user is NAME"),
        (["a:secret\nb:secret"], "a user is NAME"),
        (["#a:secret"], "a user is NAME"),
        (["alice:secret", "alice"], "alice is there twice"),
        ([f"{'u' * 32_763}:secret"], "a name has at most 32,762 characters"),
        (["bob:secret\udcff"], "the password of bob is no text in UTF-8"),
        (["@/nowhere"], r"cannot read /nowhere \(No such file or directory\)"),
    ],
)
def test_a_user_that_is_none_is_refused_without_its_password(texts: list[str], reason: str) -> None:
    with pytest.raises(click.BadParameter, match=reason) as raised:
        users(texts)
    assert "secret" not in raised.value.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"alice:x\n\nsecret:\n", "file:3: a user is NAME"),
        (b"alice:secret\nalice:secret\n", "file:2: alice is there twice: leave one out"),
        (b"secret\xff\n", r"file \(it is no text in UTF-8\)"),
    ],
)
def test_the_line_of_a_file_that_is_no_user_is_named_without_its_text(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(click.BadParameter, match=reason) as raised:
        users([f"@{tmp_path}/file"])
    assert "secret" not in raised.value.message


@pytest.mark.parametrize(("has_own_certificate", "name"), [(False, "SASL_PLAINTEXT"), (True, "SASL_SSL")])
def test_users_log_in_on_a_listener_without_a_name(tmp_path: Path, has_own_certificate: bool, name: str) -> None:
    options = Options(
        data_dir=str(tmp_path), users=users(["a:b", "c:d"]), authorizes=True, has_own_certificate=has_own_certificate
    )
    settings = options.settings()
    texts = settings.config.texts
    assert [(each.name, each.protocol.name) for each in settings.listeners] == [(name, name)]
    assert texts["sasl.enabled.mechanisms"] == "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"
    assert texts[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] == PLAIN_BY_SCRAM
    assert (texts["authorizer.class.name"], texts["super.users"]) == (STANDARD, "User:a")
    assert settings.users == options.users


def test_configs_that_are_set_stay(tmp_path: Path) -> None:
    jaas = "listener.name.in.plain.sasl.jaas.config"
    configs = {
        "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        jaas: PLAIN_BY_SCRAM.replace("scram_users=true", "user_a=b"),
        "super.users": "User:root;",
    }
    listen = (("IN", Address("127.0.0.1", 0)), ("", Address("127.0.0.1", 0)))
    made = Options(data_dir=str(tmp_path), listen=listen, users=users(["a:b"]), authorizes=True, configs=configs)
    texts = made.settings().config.texts
    assert (texts["sasl.enabled.mechanisms"], texts[jaas]) == ("PLAIN", configs[jaas])
    assert texts["listener.name.sasl_plaintext.plain.sasl.jaas.config"] == PLAIN_BY_SCRAM
    assert texts["super.users"] == "User:root;User:a"


def test_users_without_a_log_in_and_authorization_without_a_super_user_are_refused(tmp_path: Path) -> None:
    listen = (("PLAINTEXT", Address("127.0.0.1", 0)),)
    with pytest.raises(StartError, match="--user: the listener PLAINTEXT has no log-in: call it SASL_SSL"):
        Options(data_dir=str(tmp_path), listen=listen, users=users(["a"])).settings()
    with pytest.raises(StartError, match="--authorize needs a super user.*: add --user NAME, or set super.users"):
        Options(data_dir=str(tmp_path), authorizes=True).settings()
    supers = {"super.users": "User:ANONYMOUS"}
    texts = Options(data_dir=str(tmp_path), authorizes=True, configs=supers).settings().config.texts
    assert (texts["authorizer.class.name"], texts["super.users"]) == (STANDARD, "User:ANONYMOUS")


@pytest.mark.parametrize("name", ["a;b", ";", "a "])
def test_a_name_that_super_users_cannot_have_is_refused_for_the_first_user_alone(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartError, match=f"--user {name}: the first user is a super user .*: put another user first"):
        Options(data_dir=str(tmp_path), authorizes=True, users=users([f"{name}:x", "c:d"])).settings()
    for authorizes, named in ((False, [f"{name}:x"]), (True, ["c:d", f"{name}:x"])):
        Options(data_dir=str(tmp_path), authorizes=authorizes, users=users(named)).settings()


def test_only_the_generated_password_of_a_new_user_is_printed(tmp_path: Path) -> None:
    settings = Options(data_dir=str(tmp_path), users=users(["alice:secret", "bob", "carol"])).settings()
    serving = Serving("h", 1, "c", 1, dict, new_users=frozenset({"alice", "bob"}))
    password, log_in = remarks(settings, serving)
    assert password == f"the password of bob is {settings.users[1].password.reveal()}: note it, it is not shown again"
    log_in_by = "a user logs in with security.protocol=SASL_PLAINTEXT and with sasl.mechanism="
    assert log_in == f"{log_in_by}SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN"
    chosen = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    settings = Options(data_dir=str(tmp_path), users=users(["alice:secret"]), configs=chosen).settings()
    assert list(remarks(settings, serving)) == [f"{log_in_by}SCRAM-SHA-512"]


def test_users_whom_no_listener_lets_log_in_are_refused(tmp_path: Path) -> None:
    configs = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_BY_SCRAM.replace("scram_users=true", "user_a=b"),
    }
    with pytest.raises(StartError, match="^--user: sasl.enabled.mechanisms has only PLAIN, .*: add SCRAM-SHA-256 to"):
        Options(data_dir=str(tmp_path), users=users(["c:d"]), configs=configs).settings()
