"""Tests of decisions about ACLs against Apache Kafka's StandardAuthorizer, which `AclDecisions.java` asks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from pykbroker.core.ids import id_text
from pykbroker.core.security.acl.acl import Acl
from pykbroker.core.security.acl.authorizer import AclAuthorizer, AclDecision
from tests.interop.java_tools import SHORT_LIVED_JVM
from tests.unit.core.security.acl_walk import SUPER_USER, Question, ask, history

PROGRAM = Path(__file__).with_name("AclDecisions.java")
CHANGES, QUESTIONS = 2_500, 20
RUN_SECONDS_MAX = 100

Step = tuple[dict[bytes, Acl], list[Question]]


class Lines:
    """An audit log that has the level of each line, and every decision."""

    def __init__(self) -> None:
        self.last = ""

    def wants_allowed(self) -> bool:
        return True

    def log(self, decision: AclDecision) -> None:
        level = ("DEBUG" if decision.rule.allows else "INFO") if decision.is_requested else "TRACE"
        self.last = f"{level}\t{decision}"


def commands(steps: list[Step], *, without_acls: bool) -> str:
    """Return the lines that the Java program reads."""
    lines, before = [f"=\t{SUPER_USER}\t{without_acls}"], dict[bytes, Acl]()
    for acls, questions in steps:
        lines += [f"-\t{id_text(acl_id)}" for acl_id in before.keys() - acls.keys()]
        for acl_id in acls.keys() - before.keys():
            acl = acls[acl_id]
            kinds = f"{acl.resource_type}\t{acl.resource_name}\t{acl.pattern_type}"
            entry = f"{acl.principal}\t{acl.host}\t{acl.operation}\t{acl.permission_type}"
            lines.append(f"+\t{id_text(acl_id)}\t{kinds}\t{entry}")
        for one in questions:
            line = f"?\t{one.principal}\t{one.host}\t{one.operation:d}\t{one.resource:d}"
            if one.name is not None:
                line += f"\t{one.name}\t{one.purpose.grants:d}\t{one.purpose.refuses:d}\t{one.times}"
            lines.append(line)
        before = acls
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.timeout(RUN_SECONDS_MAX + 10)
def test_decisions_and_audit_are_those_of_kafkas_authorizer(java: str, kafka_jars: Path) -> None:
    steps = {without_acls: list(history(Random(without_acls), CHANGES, QUESTIONS)) for without_acls in (False, True)}
    asked = "".join(commands(steps[without_acls], without_acls=without_acls) for without_acls in steps)
    command = [java, *SHORT_LIVED_JVM, "-cp", f"{kafka_jars}/*", str(PROGRAM)]
    run = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    assert run.returncode == 0, run.stderr
    answers, log = iter(run.stdout.splitlines()), Lines()
    for without_acls in steps:
        authorizer = AclAuthorizer(frozenset({SUPER_USER}), log, allows_without_acls=without_acls)
        for acls, questions in steps[without_acls]:
            authorizer.update(acls)
            for question in questions:
                answer = "ALLOWED" if ask(authorizer, question) else "DENIED"
                assert f"{answer}\t{log.last}" == next(answers), (question, list(acls.values()))
