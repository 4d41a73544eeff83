"""An index of ACLs by resource and principal, and the rule that decides.

The ACLs of a resource are those of its literal name, of the prefixes of its name, and of the literal name "*". They are
looked up by the lengths that prefixes have, so that the number of ACLs does not matter. Order is that of Kafka's
StandardAuthorizer, because its audit log names the ACL that decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pykbroker.core.security.acl.acl import EVERYONE, WILDCARD, Acl, AclEntry, PatternType, PermissionType, acl_of
from pykbroker.core.security.operation import Operation

IMPLYING: Mapping[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW also allows the key. Their DENY does not deny it."""


class Rule(msgspec.Struct, frozen=True):
    """The outcome of a decision, and its reason: an ACL, or the name of a rule."""

    allows: bool
    reason: Acl | str

    def __str__(self) -> str:
        return self.reason if isinstance(self.reason, str) else f"MatchingAcl(acl={self.reason})"


SUPER_USER = Rule(allows=True, reason="SuperUser")
DEFAULT_ALLOW = Rule(allows=True, reason="DefaultAllow")
DEFAULT_DENY = Rule(allows=False, reason="DefaultDeny")

AclsByPrincipal = dict[str, list[Acl]]


class Patterns:
    """The ACLs of one resource type, by name and then by principal."""

    def __init__(self) -> None:
        self.literal: dict[str, AclsByPrincipal] = {}
        self.prefixed: dict[str, AclsByPrincipal] = {}
        self._prefix_counts: Counter[int] = Counter()
        self._prefix_lengths: tuple[int, ...] = ()  # from the longest to the shortest

    def _named(self, acl: Acl) -> dict[str, AclsByPrincipal]:
        return self.literal if acl.pattern_type == PatternType.LITERAL else self.prefixed

    def add(self, acl: Acl) -> None:
        named = self._named(acl)
        if acl.resource_name not in named:
            named[acl.resource_name] = {}
            self._count_prefix(acl, 1)
        named[acl.resource_name].setdefault(acl.principal, []).append(acl)

    def remove(self, acl: Acl) -> None:
        named = self._named(acl)
        acls = named[acl.resource_name]
        acls[acl.principal].remove(acl)
        if not acls[acl.principal]:
            del acls[acl.principal]
        if not acls:
            del named[acl.resource_name]
            self._count_prefix(acl, -1)

    def _count_prefix(self, acl: Acl, change: int) -> None:
        if acl.pattern_type != PatternType.LITERAL:
            length, counts = len(acl.resource_name), self._prefix_counts
            before = counts[length]
            counts[length] += change
            if not before or not counts[length]:
                self._prefix_lengths = tuple(sorted(+counts, reverse=True))

    def of(self, name: str) -> Iterator[AclsByPrincipal]:
        """Yield the ACLs of each pattern that a resource's name matches."""
        if (acls := self.literal.get(name)) is not None:
            yield acls
        for length in self._prefix_lengths:
            if length <= len(name) and (acls := self.prefixed.get(name[:length])) is not None:
                yield acls
        if (acls := self.literal.get(WILDCARD)) is not None:
            yield acls


class AclIndex:
    """The ACLs by id, and the decisions that follow from them.

    `host_count` is the number of ACLs of a single host: without any, decisions do not depend on the client's address.
    """

    def __init__(self) -> None:
        self.host_count = 0
        self._entries: Mapping[bytes, AclEntry] = {}
        self._acls: dict[bytes, Acl] = {}
        self._types: dict[int, Patterns] = {}

    def update(self, entries: Mapping[bytes, AclEntry]) -> None:
        """Replace all ACLs. The mapping, and what is in it, must not change."""
        before, self._entries = self._entries, entries
        for acl_id, entry in before.items():
            if entries.get(acl_id) is not entry:
                acl = self._acls.pop(acl_id)
                self._types[acl.resource_type].remove(acl)
                self.host_count -= acl.host != WILDCARD
        for acl_id, entry in entries.items():
            if before.get(acl_id) is not entry:
                acl = self._acls[acl_id] = acl_of(entry)
                self._types.setdefault(acl.resource_type, Patterns()).add(acl)
                self.host_count += acl.host != WILDCARD

    def rule(
        self, principal: str, host: str, operation: int, resource: int, name: str, without_acls: Rule = DEFAULT_DENY
    ) -> Rule:
        """Return the rule that decides: the first DENY that applies, else the last ALLOW, else DEFAULT_DENY.

        `without_acls` decides about a resource that no ACL names, whatever the principals of ACLs are.
        """
        rule, found = None, False
        for acls in self._patterns(resource).of(name):
            found = True
            for acl in applying(acls, principal, host, operation):
                if acl.permission_type != PermissionType.ALLOW:
                    return Rule(allows=False, reason=acl)
                rule = acl
        if rule is not None:
            return Rule(allows=True, reason=rule)
        return DEFAULT_DENY if found else without_acls

    def allows_somewhere(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether an ALLOW exists for some name that no DENY covers, as in `Authorizer.authorizeByResourceType`.

        Differs from `rule`: the operation is the ACL's own or ALL, and an ALLOW of "*" outweighs a DENY of a name.
        """
        patterns = self._patterns(resource)
        literal = _permissions(patterns.literal, principal, host, operation)
        prefixed = _permissions(patterns.prefixed, principal, host, operation)
        everywhere = literal.pop(WILDCARD, None)
        if everywhere:
            return all(permission == PermissionType.ALLOW for permission in everywhere)
        denied = {name for name, permissions in prefixed.items() if PermissionType.DENY in permissions}
        lengths = {*map(len, denied)}
        return any(
            PermissionType.ALLOW in permissions
            and not (named is literal and PermissionType.DENY in permissions)
            and not any(name[:length] in denied for length in lengths)
            for named in (literal, prefixed)
            for name, permissions in named.items()
        )

    def _patterns(self, resource: int) -> Patterns:
        return self._types.get(resource) or NO_PATTERNS


NO_PATTERNS = Patterns()


def applying(acls: AclsByPrincipal, principal: str, host: str, operation: int) -> list[Acl]:
    """Return the ACLs that apply to an operation of a client, in Kafka's order."""
    implying = IMPLYING.get(operation, ())
    found = [
        acl
        for acl in _of_client(acls, principal, host)
        if acl.operation in (operation, Operation.ALL)
        or (acl.operation in implying and acl.permission_type == PermissionType.ALLOW)
    ]
    if len(found) > 1:
        found.sort(key=lambda acl: (acl.operation, acl.principal, acl.host, acl.permission_type))
    return found


def _of_client(acls: AclsByPrincipal, principal: str, host: str) -> Iterable[Acl]:
    own = acls.get(principal, ())
    everyone = acls.get(EVERYONE, ()) if principal != EVERYONE else ()
    return (acl for some in (own, everyone) for acl in some if acl.host in (WILDCARD, host))


def _permissions(
    named: Mapping[str, AclsByPrincipal], principal: str, host: str, operation: int
) -> dict[str, set[int]]:
    """Return the permission types of the client's ACLs by name. Their operation is this one, or ALL."""
    return {
        name: {
            acl.permission_type
            for acl in _of_client(acls, principal, host)
            if acl.operation in (operation, Operation.ALL)
        }
        for name, acls in named.items()
        if principal in acls or EVERYONE in acls
    }
