"""The metrics of the event loop, connections, directories and devices, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.world import process_io
from pykbroker.world.process_io import storage_bytes
from tests.unit.console.observed import Observed

IO = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"


async def test_handlers_and_network_threads_have_the_idle_share_of_the_event_loop() -> None:
    found = await Observed().scrape()
    assert found["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", ()] == 0.25
    assert found["kafka_network_socketserver_networkprocessoravgidle_percent", ()] == 0.25


async def test_connections_are_counted_by_listener() -> None:
    found = await Observed().scrape()
    name = "kafka_server_socket_server_metrics_connection_count"
    counts = {dict(labels)["listener"]: value for (one, labels), value in found.items() if one == name}
    assert counts == {"PLAINTEXT": 7, "INTERNAL": 0}


async def test_a_failed_log_directory_is_counted_and_named() -> None:
    found = await Observed().scrape()
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ()] == 1
    offline = {dict(labels)["logDirectory"]: value for (name, labels), value in found.items() if "yoffline" in name}
    assert offline == {"/d/a": 0, '/d/"b"': 1}


async def test_the_bytes_of_devices_are_read_where_the_system_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = tmp_path / "io"
    monkeypatch.setattr(process_io, "COUNTERS", counters)
    assert storage_bytes() is None
    assert not [name for name, _ in await Observed().scrape() if "linux_disk" in name]
    counters.write_text(IO)
    found = await Observed().scrape()
    names = [f"kafka_server_kafkaserver_linux_disk_{verb}_bytes" for verb in ("read", "write")]
    assert [found[name, ()] for name in names] == [4096, 8192]
