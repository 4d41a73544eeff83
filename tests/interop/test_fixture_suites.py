"""Test suites of users with the fixtures: beside the pytest plugins that change threads, time, files or loops."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(150)
"""A suite starts Python, pytest and a broker, which takes long on a busy machine."""
ROUND_TRIP = '''
import itertools

from confluent_kafka import Consumer, Producer

groups = itertools.count()


def round_trip(broker, topic):
    """Send a record and read it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors = []
    producer.produce(topic, b"order", on_delivery=lambda error, record: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]
    group = f"group-{next(groups)}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    record = consumer.poll(20)
    consumer.close()
    assert record.value() == b"order"
'''
PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROCESS = "[pytest]\nkafka_broker_process = true\n"


def suite(project: Path, test: str, *options: str, ini: str = "[pytest]\n") -> subprocess.CompletedProcess[str]:
    """Run a suite of one file."""
    (project / "pytest.ini").write_text(ini)
    (project / "test_suite.py").write_text(ROUND_TRIP + test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=140)


def passed(project: Path, test: str, *options: str, ini: str = "[pytest]\n") -> str:
    """Run a suite of one file. Check that it passes, and return what pytest prints."""
    ended = suite(project, test, *options, ini=ini)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@contextmanager
def printing(program: str, pattern: str) -> Iterator[None]:
    """Run a Python program during the block; check that its output matches."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield
        output, errors = process.communicate(timeout=60)
    assert re.fullmatch(pattern, output), errors


# ---- suites that share a process: one with its broker in a thread, and one with its broker in a process


OF_BOTH = """
import freezegun
import pytest

import orders


def test_coverage(kafka_broker, kafka_topic):
    assert orders.place() == 1
    round_trip(kafka_broker, kafka_topic)


@pytest.mark.parametrize("day", ["2020-01-01", "2040-01-01"])
def test_frozen_time(kafka_broker, kafka_topic, day):
    round_trip(kafka_broker, kafka_topic)
    with freezegun.freeze_time(day):
        round_trip(kafka_broker, kafka_broker.topic())
        kafka_broker.clear()
    round_trip(kafka_broker, kafka_broker.topic())


@freezegun.freeze_time("2020-01-01")
def test_a_restart_in_frozen_time(kafka_broker, kafka_topic):
    kafka_broker.restart()
    round_trip(kafka_broker, kafka_topic)
"""
OF_THREAD = """
import multiprocessing

import aiokafka

from pykbroker.testing import running_broker


@pytest.mark.parametrize("process", [False, True])
@freezegun.freeze_time("2020-01-01")
def test_a_start_in_frozen_time(process):
    with running_broker(process=process) as broker:
        round_trip(broker, broker.topic())


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_asyncio(kafka_broker, kafka_topic):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        await producer.send_and_wait(kafka_topic, b"order")
        await producer.send_and_wait(kafka_broker.topic(), b"order")
    consumer = aiokafka.AIOKafkaConsumer(
        kafka_topic, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest"
    )
    async with consumer:
        assert (await consumer.getone()).value == b"order"


def work(broker, names):
    names.put(broker.topic())


def test_a_fork(kafka_broker):
    context = multiprocessing.get_context("fork")
    names = context.SimpleQueue()
    worker = context.Process(target=work, args=(kafka_broker, names))
    worker.start()
    round_trip(kafka_broker, names.get())
    worker.join()
    assert worker.exitcode == 0
"""
OF_PROCESS = """
import os


def test_a_fake_file_system(kafka_broker, kafka_topic, fs):
    assert not os.path.exists("/usr")
    round_trip(kafka_broker, kafka_topic)
    kafka_broker.restart()
    round_trip(kafka_broker, kafka_broker.topic())
    kafka_broker.clear()
"""
SUITES = {"thread": (OF_BOTH + OF_THREAD, "[pytest]\n"), "process": (OF_BOTH + OF_PROCESS, PROCESS)}
KINDS = pytest.mark.parametrize("kind", SUITES)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run both suites at the same time; return what pytest prints for each."""

    def run(kind: str) -> str:
        test, ini = SUITES[kind]
        project = tmp_path_factory.mktemp(kind)
        (project / "orders.py").write_text("def place():\n    return 1\n\n\ndef cancel():\n    return 2\n")
        return suite(project, test, "-rA", "--cov=orders", "--cov-report=term-missing", ini=ini).stdout

    with ThreadPoolExecutor(len(SUITES)) as pool:
        return dict(zip(SUITES, pool.map(run, SUITES), strict=True))


@KINDS
def test_a_suite_passes(printed: dict[str, str], kind: str) -> None:
    assert re.fullmatch(r"\d+ passed(, \d+ warnings?)? in .*", printed[kind].splitlines()[-1]), printed[kind]


@KINDS
def test_coverage_measures_the_code_under_test(printed: dict[str, str], kind: str) -> None:
    assert "PASSED test_suite.py::test_coverage\n" in printed[kind], printed[kind]
    assert re.search(r"orders\.py +4 +1 +75% +6", printed[kind]), printed[kind]


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_a_broker_may_start_while_time_is_frozen(printed: dict[str, str], process: bool) -> None:
    passed_test = f"PASSED test_suite.py::test_a_start_in_frozen_time[{process}]\n"
    assert passed_test in printed["thread"], printed["thread"]


@KINDS
def test_the_broker_keeps_the_time_while_freezegun_freezes_it(printed: dict[str, str], kind: str) -> None:
    for test in ("test_frozen_time[2020-01-01]", "test_frozen_time[2040-01-01]", "test_a_restart_in_frozen_time"):
        assert f"PASSED test_suite.py::{test}\n" in printed[kind], printed[kind]


def test_tests_may_run_on_asyncio(printed: dict[str, str]) -> None:
    assert "PASSED test_suite.py::test_asyncio\n" in printed["thread"], printed["thread"]


def test_a_test_may_fork_workers_that_use_the_broker(printed: dict[str, str]) -> None:
    assert "PASSED test_suite.py::test_a_fork\n" in printed["thread"], printed["thread"]


def test_a_broker_in_a_process_serves_tests_with_a_fake_file_system(printed: dict[str, str]) -> None:
    assert "PASSED test_suite.py::test_a_fake_file_system\n" in printed["process"], printed["process"]


# ---- suites in a process of their own


def test_workers_of_xdist_have_a_broker_and_a_data_directory_each(tmp_path: Path) -> None:
    test = """
import os
import pathlib

import pytest


@pytest.mark.parametrize("number", range(4))
def test_it(kafka_broker, kafka_topic, number):
    round_trip(kafka_broker, kafka_topic)
    pathlib.Path(f"{os.environ['PYTEST_XDIST_WORKER']}-{kafka_broker.port}").touch()
"""
    assert "4 passed" in passed(tmp_path, test, "-n", "2", ini="[pytest]\nkafka_broker_data_dir = data\n")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["gw0", "gw1"]
    used = sorted(path.name.split("-") for path in tmp_path.glob("gw*"))
    assert [worker for worker, _ in used] == ["gw0", "gw1"]
    assert len({port for _, port in used}) == 2


def test_tests_may_run_on_trio(tmp_path: Path) -> None:
    test = """
import trio


async def test_it(kafka_broker, kafka_topic, autojump_clock):
    topic = kafka_broker.topic()
    await trio.sleep(1000)
    await trio.to_thread.run_sync(round_trip, kafka_broker, topic)
    round_trip(kafka_broker, kafka_topic)
"""
    assert "1 passed" in passed(tmp_path, test, ini="[pytest]\ntrio_mode = true\n")


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    test, conftest, marked, program, *_ = PYTHON
    (ini,) = re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    logs_in = test.replace("bootstrap_servers=kafka_broker.bootstrap", '**kafka_broker.kafka_python("alice")')
    with printing(program, r"127\.0\.0\.1:\d+\n"):
        assert "1 passed" in passed(tmp_path, logs_in, ini=ini)
    (tmp_path / "conftest.py").write_text(conftest)
    assert "2 passed" in passed(tmp_path, test + marked)


def test_the_examples_of_a_cluster_run(tmp_path: Path) -> None:
    *_, test, program = PYTHON
    with printing(program, r"\[1, 2, 3\]\n"):
        assert "1 passed" in passed(tmp_path, test)


CLUSTER_OPTIONS = """
import pytest

@pytest.fixture(scope="session")
def kafka_cluster_options():
    return {options}
"""
KILLS = """
import pytest

pytestmark = pytest.mark.kafka_cluster(brokers=2, topics=["t"])

def test_first(kafka_cluster):
    assert kafka_cluster.brokers == (1, 2)
    kafka_cluster.kill(2)
    kafka_cluster.pause(1)

def test_second(kafka_cluster, kafka_cluster_of_session):
    assert kafka_cluster is kafka_cluster_of_session
    assert kafka_cluster.isr("t") == [1, 2]
"""


def test_the_brokers_of_a_cluster_run_again_after_a_test_that_killed_them(tmp_path: Path) -> None:
    assert "2 passed" in passed(tmp_path, CLUSTER_OPTIONS.format(options={"brokers": 3}) + KILLS)


def test_an_unknown_option_of_a_cluster_is_refused_in_a_sentence(tmp_path: Path) -> None:
    test = CLUSTER_OPTIONS.format(options={"broker": 2}) + "def test_it(kafka_cluster): raise AssertionError\n"
    (tmp_path / "test_suite.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=."]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "'broker' in kafka_cluster_options is no option of kafka_cluster; did you mean brokers?" in ended.stdout
