"""Tests of the files `quorum-state` and `bootstrap.checkpoint`, which Apache Kafka reads and writes, too."""

from __future__ import annotations

import pytest

from pykbroker.core.metadata.bootstrap import feature_records
from pykbroker.core.metadata.features import NEW_CLUSTER
from pykbroker.quorum.bootstrap_file import bootstrap_content, read_bootstrap
from pykbroker.quorum.quorum_state import QuorumState
from tests.unit.core.metadata.harness import golden
from wire.errors import DecodeError
from wire.records.batch import batches

KRAFT = "kraft-snapshot-and-dynamic"


def test_a_quorum_state_with_static_voters_is_read_and_written_as_by_kafka() -> None:
    text = golden("clean", "clean/__cluster_metadata-0/quorum-state").decode()
    state = QuorumState.from_text(text)
    assert state == QuorumState(leader_id=1, leader_epoch=2, voters=(1,), version=0)
    assert state.to_text() == text


def test_a_quorum_state_with_dynamic_voters_is_read_and_written_as_by_kafka() -> None:
    text = golden(KRAFT, "dynamic-quorum/__cluster_metadata-0/quorum-state").decode()
    state = QuorumState.from_text(text)
    assert state == QuorumState(leader_id=1, leader_epoch=1, version=1)
    assert state.to_text() == text


@pytest.mark.parametrize("version", [0, 1])
def test_our_own_fields_of_the_quorum_state_are_written_and_read(version: int) -> None:
    state = QuorumState(leader_id=1, leader_epoch=4, cluster_id="c", applied_offset=7, version=version)
    assert QuorumState.from_text(state.to_text()) == state


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"leaderId":1}', "\x00"])
def test_a_damaged_quorum_state_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="not the content of a"):
        QuorumState.from_text(text)


def without_times(content: bytes) -> list[bytes]:
    """Return the batches without their checksums and timestamps."""
    found = [bytes(batch.buffer) for batch in batches(content, strict=True)]
    return [batch[:17] + batch[21:27] + batch[43:] for batch in found]


def test_the_bootstrap_file_equals_kafkas_except_for_timestamps() -> None:
    theirs = golden("clean", "clean/bootstrap.checkpoint")
    ours = bootstrap_content(feature_records(NEW_CLUSTER), 1_795_266_158_145)
    assert len(ours) == len(theirs) == 411
    assert without_times(ours) == without_times(theirs)
    assert [batch.crc_ok() for batch in batches(ours)] == [True] * 3


def test_the_records_of_kafkas_bootstrap_file_are_read() -> None:
    assert read_bootstrap(golden("clean", "clean/bootstrap.checkpoint")) == feature_records(NEW_CLUSTER)


def test_a_damaged_bootstrap_file_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_bootstrap(golden("clean", "clean/bootstrap.checkpoint")[:-1])
