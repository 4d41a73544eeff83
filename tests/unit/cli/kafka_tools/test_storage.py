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
    assert capsys.readouterr().out == f"Found problem:\n  {data} does not exist\n\n"
    data.mkdir()
    assert main(["kafka-storage.sh", "info", "-c", str(file)]) == 1
    assert capsys.readouterr().out == (
        f"Found log directory:\n  {data}\n\nFound problem:\n  {data} is not formatted.\n\n"
    )
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


def test_directories_of_two_clusters_are_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, paths = tmp_path / "server.properties", [tmp_path / "a", tmp_path / "b"]
    for path, cluster_id, node_id in zip(paths, (ID, OTHER), (1, 2), strict=True):
        path.mkdir()
        (path / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n")
    file.write_text(FILE.format(data=",".join(map(str, paths))))
    assert main(["kafka-storage", "info", "-c", str(file)]) == 1
    assert capsys.readouterr().out.endswith(
        "Found problems:\n  Mismatched cluster IDs between storage directories.\n"
        "  Mismatched node IDs between storage directories.\n\n"
    )


@pytest.mark.parametrize(
    ("role", "words", "sentence"),
    [
        ("broker,controller", ["-s", "-N"], "--no-initial-controllers is not allowed with --standalone"),
        ("broker", ["-s"], "You cannot use --standalone on a broker node."),
        ("broker,controller", ["extra"], "kafka-storage format takes options only, and not 'extra'"),
    ],
)
def test_what_cannot_be_formatted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str, words: list[str], sentence: str
) -> None:
    file = tmp_path / "server.properties"
    text = FILE.format(data=tmp_path / "data").replace("broker,controller", role)
    listeners = "listeners=PLAINTEXT://127.0.0.1:9092" + (",CONTROLLER://127.0.0.1:9093" if "," in role else "")
    file.write_text(f"{text.replace('1@', '1@' if ',' in role else '2@')}{listeners}\n")
    assert main(["kafka-storage", "format", "-t", ID, "-c", str(file), *words]) == 1
    assert capsys.readouterr().err == f"{sentence}\n"
    assert not (tmp_path / "data").exists()
