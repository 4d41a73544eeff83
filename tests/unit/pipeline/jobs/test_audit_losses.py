"""The losses that an audit names of an archive that lacks records."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.audit.findings import AuditFindings
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import audit as audit_job
from pykbroker.pipeline.jobs.archived import ArchiveClaims, ArchivedRecords
from pykbroker.pipeline.jobs.audit import AuditSettings, claimed_losses, compared_with_claims
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.skipped import SkippedRange
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.session import PipelineSession
from tests.unit.pipeline.audit.samples import partition, side, topic

A0, A1, NEW = (TopicPartition("a", index) for index in range(3))
SETTINGS = AuditSettings(None, "/lake")
FRAME: Any = None


def archived(*damages: str, **claims: Any) -> ArchivedRecords:
    return ArchivedRecords(ArchiveClaims({A0: 10, A1: 20}, **claims), FRAME, damages)


def test_retention_that_has_outrun_the_archive_is_a_loss() -> None:
    """The log of one partition begins at the end of the archive, and that of a new one behind its first record."""
    starts = {A0: 10, A1: 23, NEW: 5, TopicPartition("b", 0): 7}
    ends = LogEnds(starts, dict.fromkeys(starts, 30))
    assert claimed_losses(archived(), SETTINGS, ends) == [
        "a-1: the topic had deleted the offsets 20 to 22 before they were archived",
        "a-2: the topic had deleted the offsets 0 to 4 before they were archived",
    ]
    assert claimed_losses(archived(), SETTINGS, None) == []


def test_ends_are_asked_for_before_and_after_the_claims_of_a_growing_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive goes on from offset 10 to 40, retention follows it to 40, and a partition is new."""
    looks = [LogEnds({A0: 0}, {A0: 40}), LogEnds({A0: 40, A1: 0}, {A0: 50, A1: 5})]
    seen = []

    def found(_: object, sides: Any, ends: LogEnds, cluster: str, now: int, lost: Any) -> AuditFindings:
        seen.append((sides, ends, list(lost)))
        return AuditFindings(now, cluster, [])

    def with_archive(*arguments: Any) -> AuditFindings:
        return arguments[3](ArchivedRecords(ArchiveClaims({A0: 10, A1: 5}), FRAME))

    monkeypatch.setattr(audit_job, "_topics", lambda _: (ClusterFacts("c", {}, {}), looks.pop(0)))
    monkeypatch.setattr(audit_job, "read_records", lambda *_, **__: FRAME)
    monkeypatch.setattr(audit_job, "found", found)
    monkeypatch.setattr(audit_job, "with_archive", with_archive)
    session: Any = PipelineSession(None, "python", "")  # type: ignore[arg-type]
    audit_job.audit(session, AuditSettings(TopicsToRead("h:1", ("a",)), "/lake"), lambda _: None)
    [(sides, ends, lost)] = seen
    assert ([each.side for each in sides], set(ends.next), lost) == (["topic", "archive"], {A0, A1}, [])


def test_skipped_offsets_and_damaged_files_are_losses() -> None:
    found = claimed_losses(archived("x is missing", skipped=[SkippedRange("a", 0, 3, 4)]), SETTINGS, None)
    assert found == ["a-0: the topic had deleted the offset 3 before it was archived", "x is missing"]


def test_a_batch_that_is_half_there_is_no_loss() -> None:
    with pytest.raises(PipelineError, match="/lake has a batch that is half written"):
        claimed_losses(archived(is_pending=True), SETTINGS, None)


def test_other_records_than_those_of_the_commits_are_a_loss() -> None:
    sides = [side("topic", topic("a", partition(0, records=9))), side("archive", topic("a", partition(0, records=8)))]
    read = compared_with_claims(AuditFindings(0, "", sides, losses=["one"]), archived(), SETTINGS)
    assert read.losses == ["one"]
    claimed = {A0: ArchivedRange(0, 0, 8, 9, 5, topic="a")}
    read = compared_with_claims(AuditFindings(0, "", sides, losses=["one"]), archived(ranges=claimed), SETTINGS)
    assert read.losses[1:] == [
        "a-0: the archive's files have 8 records from offset 0 to 7, and its commits 9 records from offset 0 to 8"
    ]


def test_a_page_without_its_packages_stops_the_audit_before_spark_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pykbroker.pipeline.audit.page", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    session: Any = None
    with pytest.raises(PipelineError, match=r"needs the package jinja2: pip install 'pykbroker\[spark\]'"):
        audit_job.audit(session, msgspec.structs.replace(SETTINGS, page="audit.html"), print)
