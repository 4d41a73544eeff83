"""Tests of `pykbroker acls` with a broker whose authorizer allows everything to clients without a log-in."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.testing.running import running_broker

CONFIGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def authorizing() -> Iterator[str]:
    with running_broker(configs=CONFIGS) as run:
        yield run.bootstrap


@pytest.fixture
def broker(authorizing: str) -> Iterator[str]:
    """Return the address of a broker, which has no ACL after the test."""
    yield authorizing
    for acl in listed(authorizing):
        prefix = ["--prefix"] * (acl["pattern"] == "PREFIXED")
        about = ["--cluster"] if acl["resource"] == "CLUSTER" else [f"--{acl['resource'].lower()}", acl["name"]]
        run(authorizing, "remove", acl["principal"], *about, *prefix)
    assert listed(authorizing) == []


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["acls", *words, "-b", broker])


def listed(broker: str, *words: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(run(broker, "list", "--json", *words).stdout)
    return found


def test_acls_are_created_listed_and_removed(broker: str) -> None:
    assert run(broker, "allow", "alice", "read,describe-configs", "--topic", "orders").stdout.splitlines() == [
        "User:alice may READ topic orders",
        "User:alice may DESCRIBE_CONFIGS topic orders",
    ]
    run(broker, "allow", "*", "ALL", "--group", "app-", "--prefix", "--host", "::1")
    assert run(broker, "deny", "User:CN=x", "ALTER", "--cluster").stdout == "User:CN=x must not ALTER the cluster\n"
    assert [tuple(acl.values()) for acl in listed(broker)] == [
        ("User:alice", "ALLOW", "READ", "TOPIC", "orders", "LITERAL", "*"),
        ("User:alice", "ALLOW", "DESCRIBE_CONFIGS", "TOPIC", "orders", "LITERAL", "*"),
        ("User:*", "ALLOW", "ALL", "GROUP", "app-", "PREFIXED", "0:0:0:0:0:0:0:1"),
        ("User:CN=x", "DENY", "ALTER", "CLUSTER", "kafka-cluster", "LITERAL", "*"),
    ]
    assert len(listed(broker, "--user", "alice")) == 2
    assert [acl["name"] for acl in listed(broker, "--group", "app-1")] == ["app-"]
    assert [acl["name"] for acl in listed(broker, "--group", "app-", "--prefix")] == ["app-"]
    assert listed(broker, "--topic", "other") == []
    removed = run(broker, "remove", "alice", "READ", "--topic", "orders")
    assert removed.stdout == "removed: User:alice may READ topic orders\n"
    again = run(broker, "remove", "alice", "READ", "--topic", "orders")
    assert (again.exit_code, "User:alice has no such ACL about topic orders" in again.stderr) == (1, True)
    assert len(listed(broker)) == 3


def test_control_characters_of_names_are_escaped(broker: str) -> None:
    of = ("alice", "READ", "--group", "red\x1b[31m")
    for word, verb in (("allow", ""), ("remove", "removed: ")):
        assert run(broker, word, *of).stdout == f"{verb}User:alice may READ group red\\x1b[31m\n"


def test_an_acl_that_denies_is_removed_without_those_that_allow_or_are_of_other_hosts(broker: str) -> None:
    of = ("bob", "READ", "--topic", "orders")
    run(broker, "allow", *of)
    for host in ("*", "10.0.0.1", "::1"):
        run(broker, "deny", *of, "--host", host)
    removed = run(broker, "remove", *of, "--host", "::1", "--denials")
    assert removed.stdout == "removed: User:bob must not READ topic orders from 0:0:0:0:0:0:0:1\n"
    removed = run(broker, "remove", *of, "--host", "*", "--denials")
    assert removed.stdout == "removed: User:bob must not READ topic orders\n"
    assert [(acl["permission"], acl["host"]) for acl in listed(broker)] == [("ALLOW", "*"), ("DENY", "10.0.0.1")]
    assert len(run(broker, "remove", "bob", "--topic", "orders", "--denials").stdout.splitlines()) == 1
    assert [acl["permission"] for acl in listed(broker)] == ["ALLOW"]


def test_a_check_names_the_acl_that_decides_or_the_one_that_is_missing(broker: str) -> None:
    missing = run(broker, "check", "alice", "READ", "--topic", "orders")
    assert missing.exit_code == 1
    assert missing.stdout == (
        "User:alice may not READ topic orders, unless super.users has it or allow.everyone.if.no.acl.found is true: no"
        " ACL is about it; to allow it: pykbroker acls allow alice READ --topic orders\n"
    )
    run(broker, "allow", "alice", "READ", "--topic", "ord", "--prefix")
    allowed = run(broker, "check", "alice", "READ,DESCRIBE", "--topic", "orders")
    assert allowed.exit_code == 0
    decides = "the ACL that decides is 'User:alice may READ every topic whose name begins with ord'"
    assert allowed.stdout.splitlines() == [
        f"User:alice may READ topic orders: {decides}",
        f"User:alice may DESCRIBE topic orders: {decides}",
    ]
    partly = run(broker, "check", "alice", "READ,WRITE", "--topic", "orders")
    assert partly.exit_code == 1
    assert (
        "may not WRITE topic orders, unless super.users has it: no ACL allows it; to allow it: pykbroker acls allow"
        in partly.stdout
    )
    run(broker, "deny", "*", "ALL", "--topic", "*", "--host", "10.0.0.1")
    assert run(broker, "check", "alice", "READ", "--topic", "orders").exit_code == 0
    denied = run(broker, "check", "alice", "READ", "--topic", "orders", "--host", "10.0.0.1")
    assert denied.exit_code == 1
    assert "may not READ topic orders, unless super.users has it: the ACL that" in denied.stdout
    assert denied.stdout.endswith("decides is 'User:* must not do anything with every topic from 10.0.0.1'\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["allow", "alice", "READ"], "the resource is missing: add --topic"),
        (["allow", "alice", "READ", "--topic", "a", "--group", "b"], "an ACL is about one resource"),
        (["allow", "alice", "READ", "--cluster", "--prefix"], "--prefix is about the NAME"),
        (["list", "--prefix"], "--prefix is about the NAME"),
        (["deny", "alice", "READ", "--topic", "a", "--host", "evil.example"], "'evil.example' is no IP address"),
        (["check", "alice", "READ", "--topic", "a", "--host", ""], "'' is no IP address: write one such as 10.0.0.7"),
        (["allow", "alice", "EAT", "--topic", "a"], "'EAT' is no operation: write some of ALL, READ"),
        (["allow", "", "READ", "--topic", "a"], "is no principal"),
        (["check", "alice", "READ", "--topic", "a", "--prefix"], "leave --prefix out"),
    ],
)
def test_words_that_make_no_acl_are_refused(broker: str, words: list[str], reason: str) -> None:
    refused = run(broker, *words)
    assert (refused.exit_code, reason in refused.stderr) == (2, True)


def test_a_broker_without_an_authorizer_says_so() -> None:
    with running_broker() as open_broker:
        refused = run(open_broker.bootstrap, "list")
    assert (refused.exit_code, "SECURITY_DISABLED" in refused.stderr) == (1, True)
