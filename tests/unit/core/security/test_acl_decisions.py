"""Tests of the decisions about ACLs: against a walk over all ACLs, and the rules that Kafka documents."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.security.acl.acl import Acl
from pykbroker.core.security.acl.authorizer import DECISIONS_MAX, NAME_CHARS_MAX, AclAuthorizer
from pykbroker.core.security.acl.filter import AclFilter
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from tests.unit.core.security.acl_walk import ALLOW, DENY, LITERAL, PREFIXED, SUPER_USER, Lines, allowed, ask, history
from wire.error_codes import ErrorCode

SESSION = Session("127.0.0.1", 1, "127.0.0.1", 9092, "PLAINTEXT", 0, "User:alice")
TOPIC = ResourceType.TOPIC


def of(*acls: Acl, **settings: Any) -> AclAuthorizer:
    authorizer = AclAuthorizer(frozenset({SUPER_USER}), Lines(), **settings)
    authorizer.update({index.to_bytes(16, "big"): acl for index, acl in enumerate(acls)})
    return authorizer


def acl(name: str = "t", operation: int = Operation.READ, permission: int = ALLOW, **fields: Any) -> Acl:
    one = Acl(TOPIC, name, LITERAL, "User:alice", "*", operation, permission)
    return msgspec.structs.replace(one, **fields)


@pytest.mark.parametrize("without_acls", [False, True])
def test_decisions_are_those_of_a_walk_over_all_acls(without_acls: bool) -> None:
    authorizer = AclAuthorizer(frozenset({SUPER_USER}), Lines(), allows_without_acls=without_acls)
    answers = {True: 0, False: 0}
    for acls, questions in history(Random(without_acls), 2_500, 20):
        authorizer.update(acls)
        existing = tuple(acls.values())
        for question in questions:
            answer = ask(authorizer, question)
            assert answer == allowed(existing, question, without_acls=without_acls), (question, existing)
            assert ask(authorizer, question) == answer  # remembered
            answers[answer] += 1
    assert min(answers.values()) > 5_000


def test_nobody_but_super_users_is_allowed_anything_before_acls_are_loaded() -> None:
    authorizer = AclAuthorizer(frozenset({SUPER_USER}), Lines(), allows_without_acls=True)
    with pytest.raises(ApiError) as refused:
        authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert authorizer.allows(Session("::1", 1, "::1", 1, "A", 0, SUPER_USER), Operation.READ, TOPIC, "t")
    authorizer.update({})
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t")


def test_a_change_of_acls_is_effective_at_once() -> None:
    authorizer, one = of(), acl()
    assert not authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    authorizer.update({b"1": one})
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    authorizer.update({b"1": one, b"2": acl(permission=DENY, host="127.0.0.1")})
    assert not authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    authorizer.update({b"1": one})
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    authorizer.update({})
    assert not authorizer.allows(SESSION, Operation.READ, TOPIC, "t")


def test_an_acl_under_two_ids_remains_until_both_are_removed() -> None:
    authorizer, one = of(), acl()
    authorizer.update({b"1": one, b"2": acl()})
    authorizer.update({b"1": one})
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t")
    authorizer.update({})
    assert not authorizer.allows(SESSION, Operation.READ, TOPIC, "t")


def test_an_address_of_ipv6_is_compared_as_java_writes_it() -> None:
    authorizer = of(acl(host="0:0:0:0:0:0:0:1"), acl("u", host="::1"), acl("v", host="10.0.0.9"))
    session = Session("::1", 1, "::1", 9092, "PLAINTEXT", 0, "User:alice")
    assert [authorizer.allows(session, Operation.READ, TOPIC, name) for name in "tuv"] == [True, False, False]
    mapped = Session("::ffff:10.0.0.9", 1, "::1", 9092, "PLAINTEXT", 0, "User:alice")
    assert authorizer.allows(mapped, Operation.READ, TOPIC, "v")


def test_an_acl_of_every_name_applies_to_names_that_begin_with_a_star() -> None:
    """Kafka takes "*" for a prefix of such a name, and skips it: any group could evade a DENY by its id."""
    authorizer = of(acl("*"), acl("*", Operation.WRITE, DENY), allows_without_acls=True)
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "*a")
    assert not authorizer.allows(SESSION, Operation.WRITE, TOPIC, "*a")


def test_sessions_of_a_principal_have_equal_rights_unless_an_acl_names_a_host() -> None:
    authorizer, one = of(), acl()
    here = SESSION
    there, other, root = (
        msgspec.structs.replace(SESSION, **changed)
        for changed in ({"client_host": "10.0.0.1"}, {"principal": "User:bob"}, {"principal": SUPER_USER})
    )
    before = authorizer.basis(here)
    assert authorizer.basis(there) == before != authorizer.basis(other)
    authorizer.update({b"1": one, b"2": acl(host="10.0.0.1")})
    assert len({before, authorizer.basis(here), authorizer.basis(there), authorizer.basis(root)}) == 4
    of_root = authorizer.basis(root)
    authorizer.update({b"1": one})
    assert authorizer.basis(here) == authorizer.basis(there) != before
    assert authorizer.basis(root) == of_root


def test_remembered_decisions_are_bounded_and_those_in_use_stay() -> None:
    authorizer = of(acl("t", pattern_type=PREFIXED))

    def allows(name: str) -> bool:
        return authorizer.allows(SESSION, Operation.READ, TOPIC, name)

    assert all(allows(f"t{index}") for index in range(DECISIONS_MAX))
    assert (len(authorizer._decisions), len(authorizer._older)) == (DECISIONS_MAX, 0)
    assert allows("t")
    assert (len(authorizer._decisions), len(authorizer._older)) == (1, DECISIONS_MAX)
    authorizer._index = None  # type: ignore[assignment]  # a further decision would fail
    assert all(allows(f"t{index}") for index in range(DECISIONS_MAX - 1))
    assert (len(authorizer._decisions), len(authorizer._older)) == (DECISIONS_MAX, DECISIONS_MAX)
    assert allows(f"t{DECISIONS_MAX - 1}")
    assert allows("t")  # used since, and so remembered
    assert (len(authorizer._decisions), len(authorizer._older)) == (2, DECISIONS_MAX)


def test_decisions_about_longer_names_than_those_of_topics_are_not_remembered() -> None:
    authorizer = of(acl("t", pattern_type=PREFIXED))
    for length, count in ((NAME_CHARS_MAX - 1, 1), (NAME_CHARS_MAX, 2), (NAME_CHARS_MAX + 1, 2)):
        assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t".ljust(length, "-"))
        assert len(authorizer._decisions) == count


def test_a_decision_holds_for_all_machines_of_a_user_while_no_acl_names_one() -> None:
    one = acl()
    authorizer = of(one)
    hosts = [msgspec.structs.replace(SESSION, client_host=f"10.0.0.{number}") for number in range(1, 4)]
    for acls, answers, count in (
        ({b"1": one}, [True, True, True], 1),
        ({b"1": one, b"2": acl(host="10.0.0.2", permission=DENY)}, [True, False, True], 3),
        ({b"1": one, b"3": acl()}, [True, True, True], 1),
    ):
        authorizer.update(acls)
        asked = [authorizer.allows(host, Operation.READ, TOPIC, "t") for host in hosts for _ in range(2)]
        assert asked[::2] == asked[1::2] == answers
        assert len(authorizer._decisions) == count


def test_the_audit_names_the_acl_that_decides() -> None:
    audit = Lines(verbose=True)
    authorizer = AclAuthorizer(frozenset({SUPER_USER}), audit)
    authorizer.update({b"1": acl("t", pattern_type=PREFIXED), b"2": acl("tt", permission=DENY)})
    assert authorizer.allows(SESSION, Operation.READ, TOPIC, "t1")
    assert not authorizer.allows(SESSION, Operation.READ, TOPIC, "tt", count=2)
    prefix = "Principal = User:alice is {} operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:{}"
    rule = (
        "StandardAcl[resourceType=TOPIC, resourceName={}, patternType={}, principal=User:alice, host=*, operation=READ,"
        " permissionType={}]"
    )
    assert audit.lines == [
        f"{prefix.format('Allowed', 't1')} for request = unknown with resourceRefCount = 1 based on rule"
        f" MatchingAcl(acl={rule.format('t', 'PREFIXED', 'ALLOW')})",
        f"{prefix.format('Denied', 'tt')} for request = unknown with resourceRefCount = 2 based on rule"
        f" MatchingAcl(acl={rule.format('tt', 'LITERAL', 'DENY')})",
    ]


ANY_FILTER = AclFilter(1, None, 1, None, None, 1, 1)


@pytest.mark.parametrize(
    ("fields", "matched"),
    [
        ({}, "abcdef"),
        ({"resource_type": TOPIC}, "abcde"),
        ({"resource_name": "foo"}, "ab"),
        ({"resource_name": "foo", "pattern_type": LITERAL}, "a"),
        ({"resource_name": "foo", "pattern_type": PREFIXED}, "b"),
        ({"resource_name": "foo", "pattern_type": 2}, "abce"),
        ({"resource_name": "fo", "pattern_type": 2}, "ce"),
        ({"resource_name": "*", "pattern_type": 2}, "de"),
        ({"resource_name": "", "pattern_type": 2}, "e"),
        ({"resource_name": "*", "pattern_type": LITERAL}, "e"),
        ({"pattern_type": 2}, "abcdef"),
        ({"pattern_type": 9}, ""),
        ({"resource_type": 99}, ""),
        ({"principal": "User:bob"}, "f"),
        ({"principal": "User:*"}, ""),
        ({"host": "*"}, "abcde"),
        ({"operation": Operation.READ}, "abcde"),
        ({"operation": Operation.DESCRIBE}, ""),
        ({"permission_type": DENY}, "f"),
    ],
)
def test_a_filter_matches_as_in_kafka(fields: dict[str, Any], matched: str) -> None:
    acls = {
        "a": acl("foo"),
        "b": acl("foo", pattern_type=PREFIXED),
        "c": acl("f", pattern_type=PREFIXED),
        "d": acl("*", pattern_type=PREFIXED),
        "e": acl("*"),
        "f": acl("g", 2, DENY, resource_type=ResourceType.GROUP, principal="User:bob", host="h"),
    }
    wanted = msgspec.structs.replace(ANY_FILTER, **fields)
    assert "".join(name for name, one in acls.items() if wanted(one)) == matched
