"""The options of `--kafka` that each job takes."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.kafka_options import Use, of_producer, of_reader, refusal
from pykbroker.pipeline.source.client_options import job_producer


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("maxOffsetsPerTrigger", ("stream",)),
        ("minPartitions", ("batch",)),
        ("startingOffsets", ("stream", "write")),
        ("kafka.max.poll.records", ("batch",)),
        ("kafka.Group.Id", ("stream",)),
        ("kafka.compression.type", ("write",)),
        ("kafka.compression.type", ("stream", "write")),
        ("kafka.fetch.min.bytes", ("stream", "write")),
    ],
)
def test_a_job_takes_the_options_of_its_work(name: str, uses: tuple[Use, ...]) -> None:
    assert refusal(name, uses) == ""


@pytest.mark.parametrize(
    ("name", "uses", "reason"),
    [
        ("maxOffsetPerTrigger", ("stream",), "no such option: do you mean maxoffsetspertrigger?"),
        ("path", ("stream",), "Spark's format kafka has no such option"),
        ("maxOffsetsPerTrigger", ("batch",), "the job reads no stream"),
        ("maxOffsetsPerTrigger", ("write",), "the job reads no topics: give a setting of its producer"),
        ("kafka.compression.type", ("stream",), "no such setting for this job"),
        ("kafka.fetch.min.bytes", ("write",), "no such setting for this job"),
        ("kafka.fetch.min.bites", ("batch",), "no such setting for this job: do you mean fetch.min.bytes?"),
        ("kafka.auto.offset.reset", ("stream",), "set the option startingOffsets"),
        ("kafka.transactional.id", ("write",), "tasks cannot share a transaction"),
    ],
)
def test_other_options_are_refused_with_a_reason(name: str, uses: tuple[Use, ...], reason: str) -> None:
    assert reason in refusal(name, uses)


def test_a_job_that_reads_and_writes_divides_its_options() -> None:
    options = {
        "maxOffsetsPerTrigger": "5",
        "kafka.fetch.min.bytes": "1",
        "kafka.linger.ms": "7",
        "kafka.Client.Id": "c",
    }
    assert of_reader(options).keys() == {"maxOffsetsPerTrigger", "kafka.fetch.min.bytes", "kafka.Client.Id"}
    assert of_producer(options).keys() == {"kafka.linger.ms", "kafka.Client.Id"}


def test_the_producer_of_a_job_takes_its_settings_only() -> None:
    assert job_producer({"kafka.Linger.MS": "7"}, "h:1")["linger.ms"] == "7"
    for name, message in (("maxOffsetsPerTrigger", "is no setting of the producer"), ("kafka.lingering", "lingering")):
        with pytest.raises(PipelineError, match=message):
            job_producer({name: "7"}, "h:1")
