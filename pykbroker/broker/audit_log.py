"""The audit log of the authorizer: Kafka's lines, on Kafka's logger (KIP-11), and warnings about missing rights."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.broker.missing_rights import MissingRight, MissingRights
from pykbroker.core.security.acl.authorizer import audit_text, is_requested
from pykbroker.core.security.acl.index import Rule
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Purpose, Session
from pykbroker.server.log_levels import TRACE

logger = logging.getLogger("kafka.authorizer.logger")


class AuditLog:
    """The log of decisions: denials at INFO, other decisions at DEBUG, and those that only a filter needed at TRACE.

    `ticks` returns ns of a monotonic clock.
    """

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._missing = MissingRights(ticks)

    def wants_allowed(self) -> bool:
        """Whether positive decisions are logged."""
        return logger.isEnabledFor(logging.DEBUG)

    def log(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        rule: Rule,
        purpose: Purpose,
        count: int,
    ) -> None:
        """Log a decision, if the level of the logger is low enough. `count` is how often the request has the name."""
        level = TRACE
        if not rule.allows and purpose.refuses:
            self._missing.report(MissingRight(session, operation, resource, name, rule, purpose.api))
        if is_requested(rule, purpose):
            level = logging.DEBUG if rule.allows else logging.INFO
        if logger.isEnabledFor(level):
            logger.log(level, "%s", audit_text(session, operation, resource, name, rule, purpose, count))
