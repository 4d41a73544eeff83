"""Fixtures of the tests with Spark: one session for all of them, and a broker whose cleaner runs often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pykbroker.pipeline.source.registration import register
from tests.interop.pipeline.both_formats import BothFormats
from tools import spark_session
from tools.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark(java: str) -> Iterator[SparkSession]:
    """Yield a session with Spark's connector and with the format `pykbroker`."""
    spark_session.fetch()
    session = spark_session.open_session()
    register(session)
    session.range(10).orderBy("id").collect()  # the first job takes seconds
    yield session
    session.stop()


@pytest.fixture(scope="package")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield a broker for all tests with Spark. It keeps records with timestamps of past years."""
    settings = ("--set", "log.cleaner.backoff.ms=100", "--set", "log.retention.ms=-1")
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), "--memory", *settings)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def formats(spark: SparkSession, spark_broker: BrokerProcess) -> BothFormats:
    """Return the two formats on one broker."""
    return BothFormats(spark, spark_broker.address)
