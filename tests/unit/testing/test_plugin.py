"""The fixtures in pytest runs of their own: options, keys of the configuration file, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.errors import StartError
from pykbroker.testing.ini import config_line, merged, seconds, topic_line, unique, user_line
from pykbroker.testing.plugin import OPTIONS, for_worker

pytestmark = pytest.mark.timeout(150)
"""A run starts Python, pytest and a broker, which takes long on a busy machine."""
USES = "def test_it(kafka_broker): pass\n"
PARTITIONS = """
import trio

from pykbroker.client.admin.admin_session import with_admin
from pykbroker.client.security_settings import client_security, split_security
from pykbroker.core.address import Address


def partitions(broker, user=None):
    found = {}

    async def work(admin):
        found.update({topic.name: len(topic.partitions) for topic in await admin.topics()})

    security = client_security(split_security(broker.kafka_python(user))[0])
    trio.run(with_admin, [Address(broker.host, broker.port)], "test", work, security)
    return found
"""


def run(project: Path, files: dict[str, str], *options: str) -> tuple[int, str]:
    """Write the files, run pytest, and return its exit code and what it prints."""
    for name, text in files.items():
        (project / name).write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=140,
    )
    return ended.returncode, ended.stdout


def test_the_configuration_file_sets_options(tmp_path: Path) -> None:
    ini = """
[pytest]
kafka_broker_configs =
    num.partitions = 4
    auto.create.topics.enable=false
kafka_broker_topics =
    orders:3
    payments
kafka_broker_data_dir = data
kafka_broker_process = true
kafka_broker_start_timeout = 120
kafka_broker_tls = true
kafka_broker_users =
    alice:se:cret
    bob:secret
kafka_broker_authorize = true
"""
    test = f"""{PARTITIONS}
def test_it(kafka_broker, request):
    assert partitions(kafka_broker, "alice") == {{"orders": 3, "payments": 4}}
    assert partitions(kafka_broker, "bob") == {{}}
    assert kafka_broker.java("alice")["security.protocol"] == "SASL_SSL"
    assert 'password="se:cret"' in kafka_broker.java("alice")["sasl.jaas.config"]
    name = kafka_broker.topic(partitions=-1)
    assert partitions(kafka_broker, "alice")[name] == 4
    assert (request.config.rootpath / "data" / "orders-2").is_dir()
"""
    code, printed = run(tmp_path, {"pytest.ini": ini, "test_it.py": test})
    assert code == 0, printed
    assert (tmp_path / "data" / "meta.properties").exists()


CONFTEST = """
import pytest


@pytest.fixture(scope="session")
def kafka_broker_options(tmp_path_factory):
    return {"configs": {"num.partitions": 2}, "data_dir": tmp_path_factory.mktemp("data")}


@pytest.fixture(scope="session")
def found(kafka_broker):
    return kafka_broker.topic(partitions=-1)
"""
MARKED = """
import unittest

import pytest

secured = pytest.mark.kafka_broker(tls=True, users={"alice": "secret"})
ports = {}


def test_options(kafka_broker, found):
    ports["unmarked"] = kafka_broker.port
    assert partitions(kafka_broker) == {"orders": 3, found: 2}
    name = kafka_broker.topic()
    kafka_broker.delete([name])


@secured
class TestSecured:
    def test_class(self, kafka_broker, kafka_topic):
        ports["secured"] = kafka_broker.port
        assert partitions(kafka_broker, "alice") == {"orders": 3, kafka_topic: 1}
        assert kafka_broker.confluent("alice")["security.protocol"] == "SASL_SSL"

    @pytest.mark.kafka_broker(tls=False, topics=["a"])
    def test_closest(self, kafka_broker):
        assert partitions(kafka_broker, "alice") == {"a": 2}
        assert kafka_broker.confluent("alice")["security.protocol"] == "SASL_PLAINTEXT"

    def test_unused(self):
        pass


@secured
def test_same(found, kafka_broker):
    assert kafka_broker.port == ports["secured"]
    assert found in partitions(kafka_broker, "alice")


@pytest.mark.kafka_broker(port=9092)
def test_port(kafka_broker):
    pass


@pytest.mark.kafka_broker({"tls": True})
def test_unnamed(kafka_broker):
    pass


@secured
def test_late(request):
    request.getfixturevalue("kafka_broker")


@secured
class TestCase(unittest.TestCase):
    @pytest.mark.usefixtures("kafka_broker")
    def test_method(self):
        pass


def test_first(kafka_broker, kafka_topic):
    assert kafka_broker.port == ports["unmarked"]
    ports["deleted"] = kafka_topic
    assert partitions(kafka_broker)[kafka_topic] == 1


def test_second(kafka_broker, kafka_topic):
    assert ports["deleted"] not in partitions(kafka_broker)
    assert partitions(kafka_broker)[kafka_topic] == 1


def test_third(kafka_broker, kafka_topic):
    kafka_broker.clear()


def test_fourth(kafka_broker, kafka_topic):
    kafka_broker.stop()
"""


def test_options_of_both_places_apply_and_a_mark_gives_tests_a_broker_of_their_own(tmp_path: Path) -> None:
    files = {"conftest.py": CONFTEST, "test_it.py": PARTITIONS + MARKED}
    files["pytest.ini"] = "[pytest]\nkafka_broker_topics = orders:3\n"
    code, printed = run(tmp_path, files, "--strict-markers")
    assert (code, "9 passed, 4 errors" in printed) == (1, True), printed
    assert "'port' in the mark kafka_broker is no option of a marked kafka_broker: write one of configs" in printed
    assert "the mark kafka_broker takes options by name: write kafka_broker(tls=True, users={'alice'" in printed
    assert "the mark kafka_broker has no effect on a unittest.TestCase: write a function" in printed
    assert "the mark kafka_broker has no effect on a test without the argument kafka_broker: add it" in printed
    assert "test_it.py::test_port[port]" in printed


def test_a_refused_option_is_one_sentence_without_a_traceback(tmp_path: Path) -> None:
    code, printed = run(tmp_path, {"pytest.ini": "[pytest]\nkafka_broker_topic = a\n", "test_it.py": USES})
    assert code == 1
    sentence = "the ini key kafka_broker_topic is no option of kafka_broker; did you mean"
    assert len([line for line in printed.splitlines() if line.startswith(sentence)]) == 1, printed
    assert "Traceback" not in printed
    assert not re.search(r"plugin\.py:\d+", printed)


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"topic": ["a"]}, "'topic' in kafka_broker_options is no option of kafka_broker; did you mean topics?"),
        ({"x": 1}, "'x' in kafka_broker_options is no option of kafka_broker: write one of configs, topics, data_dir"),
        (None, "kafka_broker_options returns None: return a dict such as {'topics': {'orders': 3}}"),
        ({"process": False}, "the ini key kafka_broker_process both set process: remove one of them"),
    ],
)
def test_options_that_contradict_the_configuration_file_are_refused(own: Any, sentence: str) -> None:
    with pytest.raises(StartError) as refused:
        merged({"process": True}, own, OPTIONS)
    assert sentence in str(refused.value)


def test_equal_options_in_both_places_contradict_nothing() -> None:
    assert merged({"process": True}, {"process": True, "port": 1}, OPTIONS) == {"process": True, "port": 1}


def test_lines_of_the_configuration_file_are_refused_in_a_sentence() -> None:
    with pytest.raises(StartError, match="kafka_broker_configs: 'a' is not NAME=VALUE, such as num.partitions=3"):
        config_line("a")
    with pytest.raises(StartError, match="kafka_broker_start_timeout is 'long': write a number of seconds"):
        seconds("long")
    with pytest.raises(StartError, match="kafka_broker_topics: 'a:b' is neither NAME nor NAME:PARTITIONS"):
        topic_line("a:b")
    for line in ("secret", ":secret", "secret:"):
        with pytest.raises(StartError, match="kafka_broker_users has a line that is not NAME:PASSWORD") as refused:
            user_line(line)
        assert "secret" not in str(refused.value).replace("alice:secret", "")
    with pytest.raises(StartError, match="kafka_broker_topics sets a twice: remove one of the lines"):
        unique([("a", 1), ("a", 2)], "topics")


def test_one_port_is_refused_for_several_workers() -> None:
    worker = {"workerid": "gw0", "workercount": 2}
    with pytest.raises(StartError, match="port 9092 cannot serve 2 brokers, one for each worker: leave port out"):
        for_worker({"port": 9092}, worker)
    assert for_worker({"port": 0}, worker) == {"port": 0}
    assert for_worker({"data_dir": "data"}, worker) == {"data_dir": "data/gw0"}
    assert for_worker({"port": 9092}, {**worker, "workercount": 1}) == for_worker({"port": 9092}, None)
