"""Decisions about ACLs by a walk over all of them, without an index, and random ACLs and questions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random
from typing import NamedTuple

from pykbroker.core.ids import new_id
from pykbroker.core.ip_address import java_text
from pykbroker.core.security.acl.acl import Acl
from pykbroker.core.security.acl.authorizer import AclAuthorizer, AclDecision
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Purpose, Session
from wire.api import ApiKey

DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4
SUPER_USER = "User:root"
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
CLIENTS = ("User:alice", "User:bob", "Group:alice", SUPER_USER, "User:ALICE")
HOSTS = ("127.0.0.1", "fe80::a:1")
NAMES = ("a", "ab", "abc", "abcd", "b", "ba", "*", "hardcode", "h", "ü𝄞", "ü")
TYPES = ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP
OPERATIONS = tuple(operation for operation in Operation if operation is not Operation.ALL)
IMPLIED = {(op, 8) for op in (3, 4, 6, 7)} | {(11, 10)}


class Question(NamedTuple):
    """A question to an authorizer. Without a name, any resource of the type is enough."""

    principal: str
    host: str
    operation: Operation
    resource: ResourceType
    name: str | None
    purpose: Purpose
    times: int

    def session(self) -> Session:
        return Session(self.host, 40_000, "127.0.0.1", 9092, "PLAINTEXT", 0, self.principal)


class Lines:
    """An audit log. Positive decisions are logged only if `verbose`."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.lines: list[str] = []
        self._verbose = verbose

    def wants_allowed(self) -> bool:
        return self._verbose

    def log(self, decision: AclDecision) -> None:
        self.lines.append(str(decision))


def ask(authorizer: AclAuthorizer, question: Question) -> bool:
    session, operation, resource = question.session(), question.operation, question.resource
    if question.name is None:
        return authorizer.allows_somewhere(session, operation, resource, question.purpose)
    return authorizer.allows(session, operation, resource, question.name, question.purpose, question.times)


def covers(acl: Acl, question: Question) -> bool:
    """Whether the ACL's pattern matches the resource."""
    name = question.name or ""
    literal = acl.pattern_type == LITERAL and acl.resource_name in (name, "*")
    prefix = acl.pattern_type == PREFIXED and name.startswith(acl.resource_name)
    return acl.resource_type == question.resource and (literal or prefix)


def is_of(acl: Acl, question: Question) -> bool:
    """Whether the ACL is about this client."""
    return acl.principal in (question.principal, "User:*") and acl.host in (java_text(question.host), "*")


def applies(acl: Acl, question: Question) -> bool:
    """Whether the ACL is about this client and this operation."""
    implied = acl.permission_type == ALLOW and (acl.operation, question.operation) in IMPLIED
    return is_of(acl, question) and (implied or acl.operation in (Operation.ALL, question.operation))


def allowed(acls: Collection[Acl], question: Question, *, without_acls: bool) -> bool:
    """Whether the ACLs allow it."""
    if question.principal == SUPER_USER:
        return True
    if question.name is None:
        question = question._replace(name="hardcode")
        return allowed(acls, question, without_acls=without_acls) or allowed_somewhere(acls, question)
    named = [acl for acl in acls if covers(acl, question)]
    permissions = {acl.permission_type for acl in named if applies(acl, question)}
    return permissions == {ALLOW} if named else without_acls


def allowed_somewhere(acls: Collection[Acl], question: Question) -> bool:
    """Whether an ACL allows it for some name that no other ACL denies."""
    own = [acl for acl in acls if acl.resource_type == question.resource and is_of(acl, question)]
    own = [acl for acl in own if acl.operation in (Operation.ALL, question.operation)]
    everywhere = {acl.permission_type for acl in own if (acl.resource_name, acl.pattern_type) == ("*", LITERAL)}
    if everywhere:
        return DENY not in everywhere
    denied = {(acl.resource_name, acl.pattern_type) for acl in own if acl.permission_type == DENY}
    return any(
        acl.permission_type == ALLOW
        and not (acl.pattern_type == LITERAL and (acl.resource_name, LITERAL) in denied)
        and not any((acl.resource_name[:end], PREFIXED) in denied for end in range(1, len(acl.resource_name) + 1))
        for acl in own
    )


def random_acl(random: Random) -> Acl:
    return Acl(
        random.choice(TYPES),
        random.choice(NAMES),
        random.choice((LITERAL, LITERAL, PREFIXED)),
        random.choice(PRINCIPALS),
        random.choice(("*", "127.0.0.1", "fe80:0:0:0:0:0:a:1")),
        random.choice(tuple(Operation)),
        random.choice((DENY, ALLOW, ALLOW)),
    )


def random_question(random: Random) -> Question:
    return Question(
        random.choice(CLIENTS),
        random.choice(HOSTS),
        random.choice(OPERATIONS),
        random.choice(TYPES),
        random.choice((*NAMES, None)),
        Purpose(ApiKey.METADATA, grants=random.random() < 0.5, refuses=random.random() < 0.5),
        random.randint(1, 3),
    )


def history(random: Random, changes: int, questions: int) -> Iterator[tuple[dict[bytes, Acl], list[Question]]]:
    """Yield ACLs by id after each change, at most 64 of them, and questions about them."""
    acls: dict[bytes, Acl] = {}
    for change in range(changes):
        size_max = 1 << change % 7
        if len(acls) >= size_max:
            acls = {acl_id: acls[acl_id] for acl_id in random.sample(sorted(acls), size_max // 2)}
        new = random_acl(random)
        if new not in acls.values():
            acls = {**acls, new_id(random): new}
        yield acls, [random_question(random) for _ in range(questions)]
