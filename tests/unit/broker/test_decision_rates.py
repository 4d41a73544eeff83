"""Tests of the rates of an authorizer's decisions: over the last one or two windows, and of nothing earlier."""

from __future__ import annotations

import pytest
import trio

from pykbroker.broker.audit_log import AuditLog
from pykbroker.broker.decision_rates import WINDOW_S, AuthorizerStatistics, DecisionRates
from pykbroker.core.security.acl.acl import Acl, PatternType, PermissionType
from pykbroker.core.security.acl.authorizer import AclAuthorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session

SESSION = Session("127.0.0.1", 1, "127.0.0.1", 9092, "PLAINTEXT", 0, "User:alice")


async def test_rates_are_those_of_the_last_two_windows(autojump_clock: trio.testing.MockClock) -> None:
    def ticks() -> int:
        return round(trio.current_time() * 1e9)

    authorizer = AclAuthorizer(frozenset(), AuditLog(ticks))
    allowed = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", Operation.READ, PermissionType.ALLOW)
    authorizer.update({b"1": allowed})
    rates = DecisionRates(authorizer, ticks)
    assert rates.statistics() == AuthorizerStatistics(1, 0, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rates.run)
        for operation in (Operation.READ, Operation.READ, Operation.WRITE):
            authorizer.allows(SESSION, operation, ResourceType.TOPIC, "t")
        assert rates.statistics() == AuthorizerStatistics(1, 4, 2), "the first decisions are no peak"
        await trio.sleep(1.5 * WINDOW_S)
        assert rates.statistics().denied_per_minute == pytest.approx(1 / 0.75)
        await trio.sleep(WINDOW_S)
        assert rates.statistics() == AuthorizerStatistics(1, 0, 0)
        nursery.cancel_scope.cancel()
