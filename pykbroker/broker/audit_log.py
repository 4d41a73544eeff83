"""The audit log of the authorizer: Kafka's lines, on Kafka's logger (KIP-11), and warnings about missing rights."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.broker.missing_rights import MissingRight, MissingRights
from pykbroker.core.security.acl.authorizer import AclDecision
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

    def log(self, decision: AclDecision) -> None:
        """Log a decision, if the level of the logger is low enough."""
        level = TRACE
        if decision.is_requested:
            level = logging.DEBUG if decision.rule.allows else logging.INFO
            if not decision.rule.allows:
                self._missing.report(MissingRight(decision))
        logger.log(level, "%s", decision)
