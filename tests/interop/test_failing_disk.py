"""Tests of brokers whose disk is full or broken: they log what the operator must do, and exit with 1."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import failing_disk
from tests.interop.bad_batches import good
from tests.interop.raw_client import RawClient
from tools.broker_process import BrokerProcess
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse


class BrokerOnFailingDisk:
    """A broker with a topic of two records. After `refuses`, its disk fails."""

    def __init__(self, start_broker: Callable[..., BrokerProcess], directory: Path) -> None:
        self._errno = directory / "errno"
        self.broker = start_broker(program=(sys.executable, failing_disk.__file__, str(self._errno)))
        with RawClient(self.broker.address) as client:
            self.topic = client.create_topic()
            assert client.produce(self.topic, good()) == 0

    def refuses(self, name: str) -> None:
        """Make the disk fail with this errno; check that a write is refused."""
        self._errno.write_text(name)
        with RawClient(self.broker.address) as client:
            assert client.produce(self.topic, good()) == ErrorCode.KAFKA_STORAGE_ERROR

    def last_line(self) -> str:
        """Return the last line of the log; check that the log has no traceback."""
        output = self.broker.stderr.read_text()
        assert "Traceback" not in output
        assert all(line[:2] == "20" for line in output.splitlines()), output
        return output.splitlines()[-1]

    def check_next_start(self) -> None:
        """Repair the disk and restart; check that all acknowledged records are there."""
        self._errno.unlink()
        self.broker.start()
        with RawClient(self.broker.address) as client:
            assert len(client.read(self.topic)) == 2
            assert client.produce(self.topic, good()) == 0
        assert self.broker.stop() == 0


@pytest.fixture
def failing(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> BrokerOnFailingDisk:
    return BrokerOnFailingDisk(start_broker, tmp_path)


def test_a_stop_on_a_full_disk_reports_the_failed_write(failing: BrokerOnFailingDisk) -> None:
    failing.refuses("ENOSPC")
    assert failing.broker.stop() == 1
    assert "ERROR   the broker stopped without closing its log directories cleanly: /" in failing.last_line()
    assert "No space left on device). The next start reads their logs as after a crash: free" in failing.last_line()
    failing.check_next_start()


def test_a_broker_whose_only_log_directory_fails_exits_with_the_reason(failing: BrokerOnFailingDisk) -> None:
    failing.refuses("EIO")
    assert failing.broker.ended() == 1
    assert "ERROR   the broker stops: /" in failing.last_line()
    assert (
        "the directory of the metadata log, failed: [Errno 5] Input/output error. Repair the disk and"
        in failing.last_line()
    )
    failing.check_next_start()


def test_a_failed_write_of_a_metadata_record_refuses_the_topic_and_stops_the_broker(
    failing: BrokerOnFailingDisk,
) -> None:
    failing._errno.write_text("EIO")
    with RawClient(failing.broker.address) as client:
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000)
        answer = client.call(CreateTopicsResponse, request, 5).topics[0]
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert failing.broker.ended() == 1
    assert "ERROR   the broker stops: /" in failing.last_line()
    failing.check_next_start()
