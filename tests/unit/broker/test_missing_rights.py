"""Tests of the warnings about clients that lack a right: their rate, and that the command in them gives the right."""

from __future__ import annotations

import logging
import shlex
import subprocess
from typing import Any

import pytest

from pykbroker.broker.audit_log import AuditLog
from pykbroker.broker.missing_rights import KINDS_OF_CLIENT_MAX
from pykbroker.cli.acls.acls import acls
from pykbroker.cli.acls.words import one_resource
from pykbroker.core.security.acl.acl import Acl, PatternType, PermissionType
from pykbroker.core.security.acl.authorizer import NAME_CHARS_MAX, AclAuthorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Purpose, Session
from pykbroker.world.rate_limited_warning import KINDS_MAX, SILENT_S
from wire.api import ApiKey

FETCH = Purpose(ApiKey.FETCH)
ALICE = "User:alice"


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


def session(principal: str = ALICE, host: str = "10.0.0.1", port: int = 4711) -> Session:
    return Session(host, port, "10.0.0.9", 9092, "SASL", 0, principal)


def authorizer(*of: Acl, clock: Clock | None = None) -> AclAuthorizer:
    made = AclAuthorizer(frozenset(), AuditLog(clock or Clock()))
    made.update({bytes([number]): acl for number, acl in enumerate(of)})
    return made


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def words(line: str, verb: str) -> list[str]:
    """Return the arguments of the command in a line, as a shell splits them."""
    assert "\n" not in line
    command = line[line.index(f"pykbroker acls {verb} ") :]
    if "$'" not in command:
        return shlex.split(command)[3:]
    shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True, text=True)
    return shown.stdout.split("\0")[3:-1]


def parsed(line: str, verb: str) -> dict[str, Any]:
    """Return the arguments of the command in a line, as the command's own parser reads them."""
    context = acls.commands[verb].make_context(verb, words(line, verb))
    params = dict(context.params)
    names = ("topic", "group", "transactional_id", "cluster", "prefix")
    return params | {"resource": one_resource(**{name: params[name] for name in names})}


@pytest.mark.parametrize("principal", [ALICE, "User:-v", "User:a:b", 'User:CN=O\'Neil, OU="R & D"', "Team:$red"])
@pytest.mark.parametrize(
    ("operation", "resource", "name", "shown"),
    [
        (Operation.READ, ResourceType.TOPIC, "orders", "topic orders"),
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "-prefix", "topic -prefix"),
        (Operation.READ, ResourceType.GROUP, "a group's; rm -rf", "group 'a group'\"'\"'s; rm -rf'"),
        (
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            "é\n2026 ERROR\\'",
            "transactional id $'é\\x0a2026 ERROR\\x5c\\x27'",
        ),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster", "the cluster"),
    ],
)
def test_the_command_of_a_line_gives_the_right_that_is_missing(caplog, principal, operation, resource, name, shown):
    client = session(principal)
    assert not authorizer().allows(client, operation, resource, name, FETCH)
    (line,) = lines(caplog)
    assert f"at 10.0.0.1:4711 may not {operation.name} {shown}, as Fetch needs; to allow it: " in line
    found = parsed(line, "allow")
    kind, named, _ = found["resource"]
    made = [
        Acl(kind, named, PatternType.LITERAL, found["principal"], found["host"], one, PermissionType.ALLOW)
        for one in found["operations"]
    ]
    assert authorizer(*made).allows(client, operation, resource, name, FETCH)
    assert (kind, named) == (resource, name)


def test_a_line_about_a_forwarded_request_has_no_port(caplog):
    assert not authorizer().allows(session(port=0), Operation.READ, ResourceType.TOPIC, "t", FETCH)
    assert lines(caplog)[0].startswith("User:alice at 10.0.0.1 (by another broker) may not READ topic t")


def test_no_line_has_a_command_that_would_allow_all_resources(caplog):
    assert not authorizer().allows(session(), Operation.READ, ResourceType.GROUP, "*", FETCH)
    (line,) = lines(caplog)
    assert line.endswith("may not READ group '*', as Fetch needs")


@pytest.mark.parametrize("host", ["*", "10.0.0.1"])
@pytest.mark.parametrize("pattern", [PatternType.LITERAL, PatternType.PREFIXED])
def test_a_line_about_an_acl_that_denies_has_the_command_that_removes_it_alone(caplog, pattern, host):
    denying = Acl(ResourceType.TOPIC, "order", pattern, "User:*", host, Operation.ALL, PermissionType.DENY)
    name = "order" if pattern == PatternType.LITERAL else "orders"
    assert not authorizer(denying).allows(session(), Operation.READ, ResourceType.TOPIC, name, FETCH)
    (line,) = lines(caplog)
    assert "; this removes the ACL that denies it: pykbroker acls remove '*' ALL --topic order" in line
    found = parsed(line, "remove")
    assert (found["principal"], found["operations"]) == ("User:*", (Operation.ALL,))
    assert found["resource"] == (ResourceType.TOPIC, "order", pattern == PatternType.PREFIXED)
    assert (found["host"], found["denials"]) == (host, True)


def test_a_client_has_one_line_a_minute_for_each_right(caplog):
    clock = Clock()
    asked = authorizer(clock=clock)

    def ask(client: Session, operation: Operation = Operation.READ, name: str = "orders") -> None:
        assert not asked.allows(client, operation, ResourceType.TOPIC, name, FETCH)

    for port in range(5):
        ask(session(port=port))
    assert len(lines(caplog)) == 1
    ask(session(host="10.0.0.2"))
    ask(session("User:bob"))
    ask(session(), Operation.WRITE)
    ask(session(), name="other")
    assert len(lines(caplog)) == 5
    clock.now = SILENT_S * 1_000_000_000 - 1
    ask(session())
    assert len(lines(caplog)) == 5
    clock.now += 1
    ask(session())
    assert lines(caplog)[-1].endswith("--topic orders (5 more like this since the last such line)")


def test_a_client_with_many_names_silences_no_other(caplog):
    clock = Clock()
    asked = authorizer(clock=clock)

    def ask(client: Session, name: str) -> None:
        assert not asked.allows(client, Operation.READ, ResourceType.TOPIC, name, FETCH)

    for number in range(KINDS_MAX):
        ask(session(), f"t{number}")
    assert len(lines(caplog)) == KINDS_OF_CLIENT_MAX + 1, "the names that are too many have one line together"
    for other in (session(host="10.0.0.2"), session("User:bob")):
        before = len(lines(caplog))
        for name in ("orders", "payments"):
            ask(other, name)
        assert len(lines(caplog)) == before + 2
    clock.now = SILENT_S * 1_000_000_000
    before = len(lines(caplog))
    for name in ("later", "latest"):
        ask(session(), name)
    assert len(lines(caplog)) == before + 2


def test_the_removal_of_an_acl_that_denies_is_followed_by_the_line_about_the_one_that_is_missing(caplog):
    denying = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, ALICE, "*", Operation.READ, PermissionType.DENY)
    asked = authorizer(denying)
    for _ in range(2):
        assert not asked.allows(session(), Operation.READ, ResourceType.TOPIC, "orders", FETCH)
    asked.update({})
    for _ in range(2):
        assert not asked.allows(session(), Operation.READ, ResourceType.TOPIC, "orders", FETCH)
    first, second = lines(caplog)
    assert "; this removes the ACL that denies it: " in first
    assert "; to allow it: " in second


def test_what_a_client_did_not_ask_for_has_no_line(caplog):
    asked = authorizer()
    for purpose in (Purpose(ApiKey.METADATA, refuses=False), Purpose(ApiKey.METADATA, grants=False, refuses=False)):
        assert not asked.allows(session(), Operation.DESCRIBE, ResourceType.TOPIC, "orders", purpose)
    assert lines(caplog) == []


@pytest.mark.parametrize(("size", "has_command"), [(-1, True), (0, True), (1, False)])
def test_a_line_has_the_beginning_of_a_long_name_and_then_no_command(caplog, size, has_command):
    name = "g" * (NAME_CHARS_MAX + size)
    assert not authorizer().allows(session(), Operation.READ, ResourceType.GROUP, name, FETCH)
    (line,) = lines(caplog)
    assert ("pykbroker acls allow" in line) == has_command
    assert line.count("g" * NAME_CHARS_MAX + "…") == (not has_command)
    assert len(line) < 2 * NAME_CHARS_MAX + 200
