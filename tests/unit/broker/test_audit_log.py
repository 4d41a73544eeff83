"""Tests of the levels of the authorizer's audit log."""

from __future__ import annotations

import logging

import pytest

from pykbroker.broker.audit_log import AuditLog, logger
from pykbroker.core.security.acl.authorizer import AclDecision
from pykbroker.core.security.acl.index import DEFAULT_DENY, SUPER_USER, Rule
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Purpose, Session
from pykbroker.server.log_levels import TRACE
from wire.api import ApiKey

SESSION = Session("127.0.0.1", 1, "127.0.0.1", 9092, "PLAINTEXT", 0, "User:alice")


class Unprintable(str):
    """A name that must not be formatted."""

    __slots__ = ()

    def __format__(self, _spec: str) -> str:
        raise AssertionError("the level of the line is off")


def log(name: str, rule: Rule, purpose: Purpose) -> None:
    AuditLog(int).log(AclDecision(SESSION, Operation.READ, ResourceType.GROUP, name, rule, purpose, 1))


@pytest.mark.parametrize(
    ("rule", "grants", "refuses", "level"),
    [
        (DEFAULT_DENY, True, True, logging.INFO),
        (DEFAULT_DENY, True, False, TRACE),
        (SUPER_USER, True, True, logging.DEBUG),
        (SUPER_USER, True, False, logging.DEBUG),
        (SUPER_USER, False, False, TRACE),
    ],
)
def test_a_line_has_kafkas_level(
    caplog: pytest.LogCaptureFixture, rule: Rule, grants: bool, refuses: bool, level: int
) -> None:
    purpose = Purpose(ApiKey.LIST_GROUPS, grants, refuses)
    with caplog.at_level(level + 1, logger.name):
        assert AuditLog(int).wants_allowed() == (level + 1 <= logging.DEBUG)
        is_warned_about = refuses and not rule.allows  # in a line of another logger
        log("g" if is_warned_about else Unprintable("g"), rule, purpose)
    assert [line for line in caplog.records if line.name == logger.name] == []
    caplog.clear()
    with caplog.at_level(level, logger.name):
        log("g", rule, purpose)
    (line,) = [line for line in caplog.records if line.name == logger.name]
    assert (line.name, line.levelno) == ("kafka.authorizer.logger", level)
    assert line.levelname == {TRACE: "TRACE", logging.DEBUG: "DEBUG", logging.INFO: "INFO"}[level]
    assert line.getMessage().endswith(f"for request = ListGroups with resourceRefCount = 1 based on rule {rule}")
