"""The pytest plugin: fixtures that start a broker, and their options. pytest finds it by its entry point."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest

from pykbroker.testing import marks
from pykbroker.testing.cluster import RunningCluster, running_cluster
from pykbroker.testing.ini import add_keys, merged, options_of
from pykbroker.testing.marks import BrokersOfSession, options_of_test
from pykbroker.testing.running import RunningBroker, running_broker
from pykbroker.world.shadowing import require_ours

T = TypeVar("T")

OPTIONS = ("configs", "topics", "data_dir", "process", "port", "start_timeout", "tls", "users", "authorize")
CLUSTER_OPTIONS = ("brokers", "replicas", "configs", "topics", "data_dir", "start_timeout", "tls", "users", "authorize")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini keys of the plugin."""
    add_keys(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of the plugin."""
    marks.declare(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a marked test the options of its marks."""
    marks.parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test on which a mark has no effect."""
    marks.check_effect(item)


@pytest.fixture(scope="session")
def kafka_broker_options() -> dict[str, Any]:
    """Provide options for `kafka_broker`: those of `running_broker`. Override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(
    request: pytest.FixtureRequest, kafka_broker_options: Any, _kafka_brokers: BrokersOfSession[RunningBroker]
) -> RunningBroker:
    """Provide a Kafka broker for the whole session: `.bootstrap` is its address, `.topic()` creates a topic.

    The mark `kafka_broker` sets options for a test, a class or a module.
    """

    def unmarked() -> dict[str, Any]:
        return merged(options_of(request.config), kafka_broker_options, OPTIONS)

    return started(request, _kafka_brokers, unmarked, "kafka_broker", OPTIONS)


@pytest.fixture(scope="session")
def kafka_cluster_options() -> dict[str, Any]:
    """Provide options for `kafka_cluster`: those of `running_cluster`. Override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster_of_session(
    request: pytest.FixtureRequest, kafka_cluster_options: Any, _kafka_clusters: BrokersOfSession[RunningCluster]
) -> RunningCluster:
    """Provide the cluster of `kafka_cluster` for fixtures of a wider scope, which have to heal it themselves."""

    def unmarked() -> dict[str, Any]:
        return merged({}, kafka_cluster_options, CLUSTER_OPTIONS, "kafka_cluster")

    return started(request, _kafka_clusters, unmarked, "kafka_cluster", CLUSTER_OPTIONS)


@pytest.fixture
def kafka_cluster(kafka_cluster_of_session: RunningCluster) -> Iterator[RunningCluster]:
    """Provide a Kafka cluster of three brokers: `.kill(broker)` kills one. After the test, all of them run again."""
    yield kafka_cluster_of_session
    kafka_cluster_of_session.heal()


@pytest.fixture(scope="session")
def _kafka_brokers() -> Iterator[BrokersOfSession[RunningBroker]]:
    with ExitStack() as until:
        yield BrokersOfSession(running_broker, until)


@pytest.fixture(scope="session")
def _kafka_clusters() -> Iterator[BrokersOfSession[RunningCluster]]:
    with ExitStack() as until:
        yield BrokersOfSession(running_cluster, until)


@pytest.fixture
def kafka_topic(kafka_broker: RunningBroker) -> Iterator[str]:
    """Provide the name of a new topic of one partition, which is deleted after the test."""
    from pykbroker.core.errors import ApiError

    name = kafka_broker.topic()
    yield name
    try:
        kafka_broker.delete([name])
    except (ApiError, OSError):
        return  # the test has deleted the topic, or stopped the broker


def started(
    request: pytest.FixtureRequest,
    brokers: BrokersOfSession[T],
    unmarked: Callable[[], dict[str, Any]],
    mark: str,
    names: tuple[str, ...],
) -> T:
    """Return the broker of a test. A refused start fails the test with its reason."""
    require_ours({item.path.parent for item in request.session.items})
    from pykbroker.core.errors import StartError

    worker = getattr(request.config, "workerinput", None)
    try:
        return brokers.started(for_worker(options_of_test(request, unmarked(), mark, names), worker))
    except StartError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)  # outside of the block, as pytest would print the reason twice


def for_worker(options: dict[str, Any], worker: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options for one worker of pytest-xdist, which gets a data directory of its own.

    `worker` is None in a run without workers. StartError: all workers would have the same port.
    """
    from pykbroker.core.errors import StartError

    if worker is None:
        return options
    if options.get("port") and worker["workercount"] > 1:
        raise StartError(
            f"port {options['port']} cannot serve {worker['workercount']} brokers, one for each worker: leave port out"
        )
    if isinstance(options.get("data_dir"), str | os.PathLike):
        return {**options, "data_dir": os.path.join(options["data_dir"], worker["workerid"])}
    return options
