"""Tests of kafka-storage: a broker that starts on a formatted directory belongs to the cluster of its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.cli.kafka_tools.__main__ import main
from pykbroker.core.ids import id_bytes
from pykbroker.storage.files.meta_properties import MetaProperties
from pykbroker.testing.running import running_broker

ID, OTHER = "4L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qk"
FILE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
log.dirs={data}
"""


def test_a_random_cluster_id_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka-storage", "random-uuid"]) == 0
    assert len(id_bytes(capsys.readouterr().out.strip())) == 16


@pytest.mark.parametrize("options", [(), ("--standalone",)])
def test_a_directory_is_formatted_once_and_a_broker_starts_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    file, data = tmp_path / "server.properties", tmp_path / "data"
    file.write_text(FILE.format(data=data))
    words = ["kafka-storage.sh", "format", "-c", str(file), *options]
    assert main(["kafka-storage.sh", "info", "-c", str(file)]) == 1
    assert f"{data} is not formatted" in capsys.readouterr().out
    assert main([*words, "-t", ID]) == 0
    assert capsys.readouterr().out == f"Formatting {data} for the cluster {ID}.\n"
    assert main([*words, "-t", ID]) == 1
    assert f"Log directory {data} is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert main([*words, f"--cluster-id={ID}", "--ignore-formatted"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    assert main([*words, "-t", OTHER, "-g"]) == 1
    assert f"{data} belongs to cluster {ID}, not to {OTHER}" in capsys.readouterr().err
    assert main(["kafka-storage", "info", "--config", str(file)]) == 0
    assert f"Found metadata: {{cluster.id={ID}, directory.id=" in capsys.readouterr().out
    with running_broker(data_dir=data):
        assert MetaProperties.decode((data / "meta.properties").read_bytes()).cluster_id == ID
