"""The pytest plugin: fixtures that start a broker, and their options. pytest finds it by its entry point."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

import pytest

from pykbroker.testing.cluster import RunningCluster, running_cluster
from pykbroker.testing.ini import add_keys, merged, options_of
from pykbroker.testing.running import RunningBroker, running_broker
from pykbroker.world.shadowing import require_ours

T = TypeVar("T")

OPTIONS = ("configs", "topics", "data_dir", "process", "port", "start_timeout", "tls", "users", "authorize")
CLUSTER_OPTIONS = ("brokers", "replicas", "configs", "topics", "data_dir", "start_timeout")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini keys of the plugin."""
    add_keys(parser)


@pytest.fixture(scope="session")
def kafka_broker_options() -> dict[str, Any]:
    """Provide options for `kafka_broker`: those of `running_broker`. Override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, kafka_broker_options: Any) -> Iterator[RunningBroker]:
    """Provide a Kafka broker for the whole session: `.bootstrap` is its address, `.topic()` creates a topic."""
    with started(
        request, running_broker, lambda: merged(options_of(request.config), kafka_broker_options, OPTIONS)
    ) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster_options() -> dict[str, Any]:
    """Provide options for `kafka_cluster`: those of `running_cluster`. Override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster_of_session(request: pytest.FixtureRequest, kafka_cluster_options: Any) -> Iterator[RunningCluster]:
    """Provide the cluster of `kafka_cluster` for fixtures of a wider scope, which have to heal it themselves."""
    with started(
        request, running_cluster, lambda: merged({}, kafka_cluster_options, CLUSTER_OPTIONS, "kafka_cluster")
    ) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(kafka_cluster_of_session: RunningCluster) -> Iterator[RunningCluster]:
    """Provide a Kafka cluster of three brokers: `.kill(broker)` kills one. After the test, all of them run again."""
    yield kafka_cluster_of_session
    kafka_cluster_of_session.heal()


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


@contextmanager
def started(
    request: pytest.FixtureRequest,
    running: Callable[..., AbstractContextManager[T]],
    options: Callable[[], dict[str, Any]],
) -> Iterator[T]:
    """Provide what `running` starts with these options. A refused start fails the test with its reason."""
    require_ours({item.path.parent for item in request.session.items})
    from pykbroker.core.errors import StartError

    worker = getattr(request.config, "workerinput", None)
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running(**for_worker(options(), worker)))
        except StartError as error:
            pytest.fail(str(error), pytrace=False)
        yield found


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
