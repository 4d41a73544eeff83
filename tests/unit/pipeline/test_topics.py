"""The choice of topics, the options of the `kafka` format, and clusters that do not answer."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pykbroker.cli.pipeline.job_signals import raising_interrupts
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline import cluster
from pykbroker.pipeline.cluster import (
    ClusterFacts,
    LogEnds,
    PipelineCluster,
    matching,
    named,
    recreated_topics,
    require_topics,
)
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.lost_records import changed_topics, lost_offsets
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.source.client_options import security_of
from pykbroker.testing.running import RunningBroker, running_broker

FACTS = ClusterFacts("c", {"a": "1", "b": "2"}, {"a": 1, "b": 1})


def test_topics_are_selected_by_name_or_by_a_pattern_for_whole_names() -> None:
    assert [name for name in ("a", "ab", "b") if named(["a", "b"])(name)] == ["a", "b"]
    assert [name for name in ("a1", "ba1", "a1b") if matching("a.")(name)] == ["a1"]
    with pytest.raises(PipelineError, match=r"the pattern '\(' is no regular expression"):
        matching("(")


def test_missing_topics_are_named() -> None:
    require_topics(FACTS, ["a"])
    with pytest.raises(PipelineError, match="no topic x, y in cluster c: create it first"):
        require_topics(FACTS, ["y", "a", "x"])
    with pytest.raises(PipelineError, match="__consumer_offsets is a topic of the brokers themselves: no job reads"):
        require_topics(FACTS, ["a", "__consumer_offsets"])


def test_topics_with_another_id_were_created_again() -> None:
    assert recreated_topics({"a": "1", "b": "3", "gone": "4"}, FACTS.topic_ids) == ["b"]


@pytest.mark.parametrize(
    ("before", "topics", "sentence"),
    [
        ({"a": "1"}, ("a",), ""),
        ({"a": "0"}, ("a",), "topic a was deleted and created again during the run"),
        ({"a": "1", "x": "5"}, ("a", "x"), "topic x was deleted during the run: leave it out of --topics"),
        ({"a": "1", "x": "5"}, (), ""),
    ],
)
def test_a_failed_run_says_what_happened_to_its_topics(
    before: dict[str, str], topics: tuple[str, ...], sentence: str
) -> None:
    assert changed_topics(before, FACTS, topics) == sentence


def test_lost_records_have_their_partition_and_their_offsets() -> None:
    one, two, three, four = (TopicPartition("t", index) for index in range(4))
    ends = LogEnds({one: 5, two: 6, three: 0}, {one: 9, two: 9, three: 4})
    assert lost_offsets({one: 5, two: 5, three: 5, four: 5}, ends) == [
        "t-1: the offsets 5 to 5 are deleted, and the log begins at 6",
        "t-2: the log ends at offset 4, and was read up to offset 5",
        "partition t-3 is gone, which was read up to offset 5",
    ]


def test_a_source_becomes_options_of_the_format() -> None:
    options = TopicsToRead("h:1", ("a", "b"), options={"kafka.max.poll.records": "5"}).connector_options()
    assert options == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "subscribe": "a,b",
        "kafka.max.poll.records": "5",
    }
    pattern = TopicsToRead("h:1", pattern="a.*", options={"startingOffsets": "latest"}, committed_only=False)
    options = pattern.connector_options()
    assert (options["subscribePattern"], options["startingOffsets"]) == (r"\A(?:a.*)\z", "latest")
    assert (options["kafka.isolation.level"], "subscribe" in options) == ("read_uncommitted", False)


@pytest.fixture(scope="module")
def secured() -> Iterator[RunningBroker]:
    """Yield a broker with TLS and the users alice, who may do everything, and bob."""
    users = {"alice": "secret", "bob": "secret"}
    with running_broker(tls=True, users=users, authorize=True, topics={"a": 2}) as running:
        yield running


def options_of(broker: RunningBroker, user: str, **changed: str) -> dict[str, str]:
    """Return the options of Spark's kafka format for a user. `changed` has other passwords or files."""
    found = {f"kafka.{name}": value for name, value in broker.java(user).items() if name != "bootstrap.servers"}
    for old, new in changed.items():
        found = {name: value.replace(old, new) for name, value in found.items()}
    return found


def test_a_job_asks_its_cluster_by_the_settings_of_its_clients(secured: RunningBroker) -> None:
    found = TopicsToRead(secured.bootstrap, ("a",), options=options_of(secured, "alice")).cluster()
    facts = found.facts(named(["a"]))
    assert facts.partitions == {"a": 2}
    assert found.ends(facts).next == {TopicPartition("a", 0): 0, TopicPartition("a", 1): 0}
    assert found.last_committed("g") == {}
    plain = TopicsToRead("h:1", options={"Kafka.Security.Protocol": "plaintext"})
    assert plain.cluster().bootstrap == "h:1"


@pytest.mark.timeout(20)
def test_a_job_that_cannot_log_in_ends_at_once_with_the_reason(secured: RunningBroker) -> None:
    wrong = PipelineCluster(secured.bootstrap, security_of(options_of(secured, "bob", secret="other")))
    for ask in (lambda: wrong.facts(named("a")), lambda: wrong.ends(FACTS)):
        with pytest.raises(PipelineError, match=r"^127\.0\.0\.1:\d+: Authentication failed during authentication"):
            ask()
    without_right = PipelineCluster(secured.bootstrap, security_of(options_of(secured, "bob")))
    with pytest.raises(PipelineError, match=r"Not authorized to access topics: \[a, b\]"):
        without_right.ends(FACTS)
    security = security_of({**options_of(secured, "bob"), "kafka.ssl.truststore.location": "/none"})
    with pytest.raises(PipelineError, match="the job: ssl.truststore.location=/none: No such file"):
        PipelineCluster(secured.bootstrap, security)


@pytest.fixture
def unused() -> str:
    """Return an address at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_cluster_that_does_not_answer_is_named_with_the_reason(unused: str) -> None:
    expected = rf"{unused}: no answer within 0\.3 s: is a broker running there\? \(all attempts to connect .*\)$"
    with pytest.raises(PipelineError, match=expected):
        PipelineCluster(unused).facts(named("a"), 0.3)


def test_a_caller_that_ends_waits_for_no_cluster(unused: str) -> None:
    begun = time.monotonic()
    with pytest.raises(PipelineError, match="no answer"):
        PipelineCluster(unused).facts(named("a"), 1000, lambda: time.monotonic() > begun + 0.3)


def test_lookups_wait_for_a_cluster_as_well(unused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    with pytest.raises(PipelineError, match=f"{unused}: no answer within 1 s: is a broker running there"):
        PipelineCluster(unused).ends(FACTS)


@pytest.mark.timeout(10)
def test_an_interrupt_ends_a_question_to_a_cluster_as_itself() -> None:
    """An interrupt inside of trio would be one of a group of errors, which no command expects."""
    with socket.create_server(("127.0.0.1", 0)) as server, raising_interrupts([]):

        def interrupt() -> None:
            with server.accept()[0]:
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            PipelineCluster(f"127.0.0.1:{server.getsockname()[1]}").facts(named(["a"]))
        thread.join()
