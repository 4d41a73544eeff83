"""Tests of `pykbroker dump-log` on intact and damaged log directories of Apache Kafka."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.logs.dumping_records import as_json
from pykbroker.cli.main import pykbroker as command
from tests.unit.storage.golden import unpack
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.stored.metadata import encode_metadata
from wire.stored.metadata_security import UserScramCredentialRecord
from wire.stored.metadata_settings import ConfigRecord

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("clean", tmp_path_factory.mktemp("golden"))


def dump(*words: object) -> Result:
    return CliRunner().invoke(command, ["dump-log", *map(str, words)])


def lines(*words: object) -> list[str]:
    """Return the lines that are printed for one file, after the line with its name."""
    result = dump(*words)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1:]


@pytest.mark.parametrize("kind", ["clean", "unclean", "snapshotted"])
def test_every_file_that_kafka_wrote_is_printed(kind: str, tmp_path: Path) -> None:
    files = [path for path in sorted(unpack(kind, tmp_path).rglob("*")) if path.suffix in SUFFIXES]
    assert {".log", ".index", ".timeindex", ".snapshot", ".checkpoint"} <= {path.suffix for path in files}
    result = dump("--deep", *files)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line[:-1] for line in result.stdout.splitlines() if line.endswith(":")] == list(map(str, files))


def test_each_batch_is_one_line_followed_by_its_records(clean: Path) -> None:
    path = clean / "codec-zstd-0" / f"{0:020}.log"
    batches = lines(path)
    assert re.fullmatch(
        r"position=0 size=\d+ offsets=0-\d+ count=\d+ epoch=0 codec=zstd timestamps=\d+-\d+ "
        r"producer=-?\d+/-?\d+ sequence=-?\d+",
        batches[0],
    )
    records = [line for line in lines("--deep", path) if line.startswith("  ")]
    assert [line.split()[0] for line in records] == [f"offset={offset}" for offset in range(30)]
    assert len(lines("--deep", path)) == len(batches) + 30


def test_headers_null_values_and_binary_values_are_printed_distinctly(tmp_path: Path) -> None:
    builder = BatchBuilder(codec=Codec.GZIP)
    builder.append(None, b"\xff\n", (("h", None), ("i", b"1")), 5)
    builder.append(b"a\nb", b"", (), 6)
    (tmp_path / "x.log").write_bytes(builder.build())
    assert lines("--deep", tmp_path / "x.log")[1:] == [
        '  offset=0 timestamp=5 key=null value=0xff0a header.h=null header.i="1"',
        '  offset=1 timestamp=6 key="a\\nb" value=""',
    ]


def test_transaction_markers_indexes_and_producer_snapshots_are_printed(clean: Path) -> None:
    folder = clean / "txn-0"
    log = lines("--deep", folder / f"{6:020}.log")
    assert log[1] == '  offset=6 COMMIT {"coordinator_epoch": 0}'
    assert log[3].startswith("  offset=7 ABORT ")
    assert log[0].endswith(" transactional control")
    assert lines(folder / f"{6:020}.txnindex")[0] == "producer=2 offsets=1-7 last_stable_offset=8"
    assert lines(folder / f"{34:020}.snapshot")[0].startswith("producer=1/0 last_sequence=")
    assert lines(clean / "rolls-0" / f"{0:020}.timeindex")[0].startswith("timestamp=17")


def test_records_of_internal_topics_are_decoded(clean: Path) -> None:
    metadata = lines("--deep", clean / "__cluster_metadata-0" / f"{0:020}.log")
    assert any(
        re.match(r'  offset=\d+ timestamp=\d+ TopicRecord {"name": "txn", "topic_id": "\S{22}"}$', line)
        for line in metadata
    )
    assert any(" LEADER_CHANGE {" in line for line in metadata)
    parts = [clean / f"__consumer_offsets-{part}" / f"{0:020}.log" for part in range(4)]
    offsets = [line for part in parts for line in lines("--deep", part)]
    assert any(re.search(r'OffsetCommit {"group": ".*"topic".*} {"offset": ', line) for line in offsets)
    assert not any(" key=" in line for line in metadata + offsets)


def test_secrets_in_metadata_records_are_not_printed() -> None:
    credential = UserScramCredentialRecord(
        name="me", mechanism=1, salt=b"canary", stored_key=b"canary", server_key=b"canary", iterations=4096
    )
    assert json.loads(as_json(credential)) == {
        "name": "me",
        "mechanism": 1,
        "salt": "(hidden)",
        "stored_key": "(hidden)",
        "server_key": "(hidden)",
        "iterations": 4096,
    }
    for name in (
        *("ssl.keystore.password", "listener.name.x.ssl.keystore.password", "sasl.jaas.config"),
        *("listener.name.x.plain.sasl.jaas.config", "of.a.plugin"),
    ):
        config = ConfigRecord(resource_type=4, resource_name="1", name=name, value="canary")
        assert json.loads(as_json(config))["value"] == "(hidden)"
    for kind, name in (2, "retention.ms"), (4, "log.retention.ms"):
        assert json.loads(as_json(ConfigRecord(resource_type=kind, name=name, value="5")))["value"] == "5"


def test_a_metadata_log_is_known_in_its_own_directory_and_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = UserScramCredentialRecord(name="me", mechanism=1, salt=b"canary", iterations=4096)
    metadata, other = BatchBuilder(), BatchBuilder(base_offset=1)
    metadata.append(None, encode_metadata(credential, 0), (), 1)
    other.append(None, b"\x01\x01", (), 1)
    other.append(None, b"text", (), 1)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    monkeypatch.chdir(directory)
    Path("0.log").write_bytes(metadata.build())
    Path("../copy.log").write_bytes(metadata.build() + other.build())
    own, copied = lines("--deep", "0.log"), lines("--deep", "../copy.log")
    assert own == copied[:2]
    assert "UserScramCredentialRecord" in own[1]
    assert "canary" not in own[1]
    assert [line.rpartition("value=")[2] for line in copied[3:]] == ['"\\u0001\\u0001"', '"text"']


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_damage_is_reported_with_its_position_and_other_files_are_still_printed(
    clean: Path, tmp_path: Path, deep: list[str]
) -> None:
    whole = clean / "codec-none-0" / f"{0:020}.log"
    data = bytearray(whole.read_bytes())
    second = 12 + struct.unpack_from(">i", data, 8)[0]
    (tmp_path / "x.log").write_bytes(bytes(data[:-3]))
    data[second + 70] ^= 1
    (tmp_path / "y.log").write_bytes(bytes(data))
    result = dump(*deep, tmp_path / "x.log", tmp_path / "y.log", whole)
    assert result.exit_code == 1
    cut, flipped = result.stderr.splitlines()
    assert re.search(rf"x.log is damaged at byte \d+ of {len(data) - 3}: batch length \d+ with \d+ bytes left", cut)
    assert f"y.log is damaged at byte {second} of {len(data)}: the batch of offset" in flipped
    assert result.stdout.count("position=0 ") == 3
    assert f"{whole}:" in result.stdout


def test_a_batch_with_a_base_offset_that_is_too_low_is_reported_as_damage(tmp_path: Path) -> None:
    builder = BatchBuilder(base_offset=7)
    builder.append(b"k", b"v", (), 1)
    batch = builder.build()
    (tmp_path / "x.log").write_bytes(batch * 2)
    result = dump(tmp_path / "x.log")
    assert f"at byte {len(batch)} of" in result.stderr
    assert "where 8 or more was expected" in result.stderr


@pytest.mark.parametrize(
    ("name", "data", "position", "entries"),
    [
        ("9.index", struct.pack(">4i", 1, 10, 2, 20) + bytes(80), None, 2),
        ("9.index", bytes(80), None, 0),
        ("9.index", struct.pack(">4i", 2, 10, 1, 20), 8, 1),
        ("9.index", struct.pack(">4i", 1, 20, 2, 20), 8, 1),
        ("9.index", struct.pack(">2i", 1, 20) + b"\0\0\1", 8, 1),
        ("9.index", struct.pack(">6i", 1, 20, 0, 0, 2, 30), 8, 1),
        ("9.timeindex", struct.pack(">qiqi", 0, 0, 5, 1), None, 2),
        ("9.timeindex", struct.pack(">qi", 0, 0), None, 1),
        ("9.timeindex", struct.pack(">qiqi", 5, 1, 5, 2), 12, 1),
        ("9.timeindex", struct.pack(">qiqi", 5, 2, 6, 1), 12, 1),
        ("9.txnindex", struct.pack(">hqqqq", 0, 1, 2, 3, 4), None, 1),
        ("9.txnindex", struct.pack(">hqqqq", 1, 1, 2, 3, 4), 0, 0),
        ("9.txnindex", struct.pack(">hqqqq", 0, 1, 2, 3, 4) + b"x", 34, 1),
        ("9.snapshot", b"\0\1", 0, 0),
        ("9.snapshot", b"\0\1" + bytes(8), 0, 0),
        ("9.log", b"", None, 0),
        ("9.log.deleted", bytes(61), 0, 0),
        ("9.checkpoint", b"x", 0, 0),
    ],
)
def test_invalid_index_entries_are_reported_with_their_position(
    tmp_path: Path, name: str, data: bytes, position: int | None, entries: int
) -> None:
    (tmp_path / name).write_bytes(data)
    result = dump(tmp_path / name)
    assert result.exit_code == (0 if position is None else 1)
    assert len(result.stdout.splitlines()) == 1 + entries
    assert result.stderr == "" if position is None else f"damaged at byte {position} of {len(data)}: " in result.stderr


def test_a_file_with_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = dump(tmp_path / "notes.txt")
    assert result.exit_code == 2
    assert "known are .log .checkpoint .index" in result.stderr
    assert dump(tmp_path).exit_code == 2
    assert dump(tmp_path / "absent.log").exit_code == 2


def test_the_segments_of_a_partition_directory_are_printed_in_the_order_of_their_offsets(
    clean: Path, tmp_path: Path
) -> None:
    segments = sorted((clean / "rolls-0").glob("*.log"))
    assert len(segments) > 1
    result = dump(clean / "rolls-0")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == dump(*segments).stdout
    offsets = [int(first) for first in re.findall(r" offsets=(\d+)-", result.stdout)]
    assert offsets == sorted(offsets)


def test_records_in_the_directory_of_an_internal_topic_are_decoded(clean: Path) -> None:
    assert ' TopicRecord {"name": "txn"' in dump("--deep", clean / "__cluster_metadata-0").stdout


def test_a_damaged_segment_does_not_hide_the_segments_after_it(clean: Path, tmp_path: Path) -> None:
    for segment in (clean / "rolls-0").glob("*.log"):
        (tmp_path / segment.name).write_bytes(segment.read_bytes())
    first, *others = sorted(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    result = dump(tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{first} is damaged at byte ")
    assert all(f"{path}:\n" in result.stdout for path in others)


def test_a_directory_without_segments_is_refused_before_anything_is_printed(clean: Path) -> None:
    result = dump(clean / "rolls-0", clean)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{clean} has no segments: name the directory of a partition, such as orders-0" in result.stderr
