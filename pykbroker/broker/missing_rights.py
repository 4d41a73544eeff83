"""The warnings about clients that lack a right, with the command that gives it to them.

The audit log of the authorizer has a line for each decision, as Kafka's. These lines are for operators who look for the
reason of an error: one a minute for each client's address, principal, resource and operation. An operator who removes
the ACL that denies a right gets the line with the ACL that is missing at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from pykbroker.core.security.acl.acl import WILDCARD, Acl
from pykbroker.core.security.acl.authorizer import NAME_CHARS_MAX, AclDecision
from pykbroker.core.security.acl.words import allow_command, has_command, quoted, remove_command, resource_text
from pykbroker.world.rate_limited_warning import RateLimitedWarnings
from wire.apis import APIS

logger = logging.getLogger(__name__)

KINDS_OF_CLIENT_MAX = 100
"""The maximum number of rights for which a principal at an address has lines of their own, so that others have some."""


class MissingRight(msgspec.Struct, frozen=True, gc=False):
    """A right that a client lacks. The text is made only if it is logged."""

    decision: AclDecision

    @property
    def has_short_name(self) -> bool:
        """Whether the name of the resource is short enough to be logged."""
        return len(self.decision.name) <= NAME_CHARS_MAX

    @property
    def shown_name(self) -> str:
        """Return the name of the resource, or its beginning."""
        name = self.decision.name
        return name if self.has_short_name else f"{name[:NAME_CHARS_MAX]}…"

    def __str__(self) -> str:
        session, operation, resource, *_, purpose, _ = self.decision
        what = f"{operation.name} {resource_text(resource, quoted(self.shown_name), is_prefix=False)}"
        request = "its request" if purpose.api is None else APIS[purpose.api].name
        return f"{quoted(session.principal)} at {session} may not {what}, as {request} needs{self.remedy}"

    @property
    def remedy(self) -> str:
        """Return how to allow it, or an empty text if no command can."""
        session, operation, resource, name, rule, *_ = self.decision
        if not (has_command(resource) and self.has_short_name):
            return ""
        if isinstance(rule.reason, Acl):
            return f"; this removes the ACL that denies it: {remove_command(rule.reason)}"
        if name == WILDCARD:  # any client may ask for this name, and an ACL with it is about all resources
            return ""
        return f"; to allow it: {allow_command(session.principal, operation, resource, name)}"


class MissingRights:
    """The warnings of one broker. `ticks` returns ns of a monotonic clock."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._warnings = RateLimitedWarnings(logger, ticks, peer_parts=2, kinds_of_peer_max=KINDS_OF_CLIENT_MAX)

    def report(self, missing: MissingRight) -> None:
        """Log a right that the client of a session lacks."""
        session, operation, resource, _, rule, *_ = missing.decision
        cause = "denied" if isinstance(rule.reason, Acl) else "not allowed"
        what = resource.name, missing.shown_name, operation.name
        self._warnings.warn((session.client_host, session.principal, cause, *what), "%s", missing)
