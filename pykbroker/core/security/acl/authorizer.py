"""The authorizer of ACLs: Kafka's StandardAuthorizer, with remembered decisions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.ip_address import java_text
from pykbroker.core.security.acl.acl import AclEntry
from pykbroker.core.security.acl.index import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, AclIndex, Rule
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import UNNAMED, Purpose, Session
from wire.apis import APIS
from wire.error_codes import ErrorCode

DECISIONS_MAX = 30_000
"""The number of remembered decisions after which those are forgotten that were not used since the number before.

Each takes some 250 bytes, so that twice as many are at most 15 MB. A decision takes ten times as long as its memory.
"""
NAME_CHARS_MAX = 249
"""The length of the longest name whose decisions are remembered: that of a topic. Ids of groups may have 32 KiB."""
SOME_NAME = "hardcode"
"""The name for which Kafka asks first when any resource of a type is enough."""

Question = tuple[str, str, Operation, ResourceType, str | None]
"""A principal, its address, an operation, a resource type and a name; None stands for any name.

The address is empty while no ACL names one, so that a user needs a decision once and not for each machine.
"""


class AclDecision(NamedTuple):
    """A decision for the audit log. `times` is how often the request names the resource."""

    session: Session
    operation: Operation
    resource: ResourceType
    name: str
    rule: Rule
    purpose: Purpose
    times: int

    @property
    def is_requested(self) -> bool:
        """Whether the client asked for the resource: the audit log has a denial at INFO and other rules at DEBUG.

        All other decisions are logged at TRACE.
        """
        return self.purpose.grants if self.rule.allows else self.purpose.refuses

    def __str__(self) -> str:
        """Return the line of Kafka's audit log."""
        api = self.purpose.api
        return (
            f"Principal = {self.session.principal} is {'Allowed' if self.rule.allows else 'Denied'}"
            f" operation = {self.operation.name} from host = {java_text(self.session.client_host)}"
            f" on resource = {RESOURCES[self.resource]}:LITERAL:{self.name}"
            f" for request = {'unknown' if api is None else APIS[api].name} with resourceRefCount = {self.times}"
            f" based on rule {self.rule}"
        )


class Audit(Protocol):
    """The log of decisions."""

    def wants_allowed(self) -> bool:
        """Whether positive decisions are logged."""

    def log(self, decision: AclDecision) -> None: ...


class AclAuthorizer:
    """An authorizer that decides by ACLs. It cannot decide for others than super users before the first `update`."""

    def __init__(self, super_users: frozenset[str], audit: Audit, *, allows_without_acls: bool = False) -> None:
        self._super_users, self._audit = super_users, audit
        self._without_acls = DEFAULT_ALLOW if allows_without_acls else DEFAULT_DENY
        self._index = AclIndex()
        self._acls: Mapping[bytes, AclEntry] | None = None
        self._decisions: dict[Question, Rule] = {}
        self._older: dict[Question, Rule] = {}
        """Further decisions, from before `_decisions` was full."""
        self._names_hosts = False
        self._updates = 0
        self.allowed = self.denied = 0
        """The numbers of decisions since the start."""

    @property
    def acl_count(self) -> int:
        """Return the number of ACLs."""
        return len(self._acls or ())

    def update(self, acls: Mapping[bytes, AclEntry]) -> None:
        """Decide by these ACLs from now on. The mapping must not change."""
        if acls is not self._acls:
            self._acls = acls
            self._index.update(acls)
            self._decisions.clear()
            self._older.clear()
            self._names_hosts = self._index.host_count > 0
            self._updates += 1

    def basis(self, session: Session) -> Hashable:
        """Return the facts about a session that decide on its rights, which are others after each update."""
        if session.principal in self._super_users:
            return True
        return session.principal, session.client_host if self._names_hosts else "", self._updates

    def logs_allowed(self) -> bool:
        return self._audit.wants_allowed()

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        """Whether the client of `session` may perform the operation on this resource."""
        question = session.principal, session.client_host if self._names_hosts else "", operation, resource, name
        rule = self._decisions.get(question) or self._decide(question)
        if rule.allows:
            self.allowed += 1
            if not self._audit.wants_allowed():
                return True
        else:
            self.denied += 1
        self._audit.log(AclDecision(session, operation, resource, name, rule, purpose, count))
        return rule.allows

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        """Whether the client of `session` may perform the operation on any resource of this type, existing or not."""
        if self.allows(session, operation, resource, SOME_NAME, Purpose(purpose.api, refuses=False), 0):
            return True
        question = session.principal, session.client_host if self._names_hosts else "", operation, resource, None
        return (self._decisions.get(question) or self._decide(question)).allows

    def _decide(self, question: Question) -> Rule:
        """Return the rule that decides, and remember it."""
        rule, name = self._older.get(question) or self._rule(question), question[-1]
        if name is None or len(name) <= NAME_CHARS_MAX:
            if len(self._decisions) >= DECISIONS_MAX:
                self._older, self._decisions = self._decisions, {}
            self._decisions[question] = rule
        return rule

    def _rule(self, question: Question) -> Rule:
        principal, host, operation, resource, name = question
        if principal in self._super_users:
            return SUPER_USER
        if self._acls is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The ACLs are not loaded yet.")
        address = java_text(host) if host else ""
        if name is not None:
            return self._index.rule(principal, address, operation, resource, name, self._without_acls)
        somewhere = self._index.allows_somewhere(principal, address, operation, resource)
        return DEFAULT_ALLOW if somewhere else DEFAULT_DENY


RESOURCES = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""The names of resource types in Kafka's audit log."""
