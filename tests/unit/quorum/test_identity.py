"""Tests of the identity of log directories: empty ones are formatted, and those of another cluster are refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykbroker.core.errors import StartError
from pykbroker.core.ids import id_bytes
from pykbroker.quorum.identity import BrokerIdentity, prepare
from tests.unit.core.metadata.harness import NOW_MS
from tests.unit.quorum.logs import disk_at, golden_directory


async def prepared_identity(
    *paths: Path, node_id: int = 1, seed: int = 1, cluster_id: str | None = None
) -> BrokerIdentity:
    return await prepare([disk_at(path) for path in paths], node_id, random.Random(seed), NOW_MS, cluster_id)


async def test_an_empty_directory_is_formatted_once(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    identity = await prepared_identity(tmp_path)
    assert (tmp_path / "meta.properties").read_text().splitlines()[:2] == ["#", "#Sat Nov 21 13:02:38 UTC 2026"]
    assert (tmp_path / "bootstrap.checkpoint").stat().st_size == 411
    assert identity.node_id == 1
    assert len(id_bytes(identity.cluster_id)) == 16
    assert await prepared_identity(tmp_path, seed=2) == identity


async def test_formatting_continues_after_an_interruption(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"half")
    (tmp_path / "meta.properties.tmp").write_bytes(b"half")
    identity = await prepared_identity(tmp_path)
    assert (tmp_path / "bootstrap.checkpoint").stat().st_size == 411
    assert await prepared_identity(tmp_path, seed=2) == identity


async def test_a_directory_whose_first_start_was_interrupted_keeps_its_identity(tmp_path: Path) -> None:
    identity = await prepared_identity(tmp_path)
    log = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    log.parent.mkdir()
    assert await prepared_identity(tmp_path, seed=2) == identity
    log.touch()
    assert await prepared_identity(tmp_path, seed=2) == identity


async def test_the_identity_of_kafkas_directory_is_read(tmp_path: Path) -> None:
    golden_directory("clean", "clean", tmp_path)
    assert await prepared_identity(tmp_path / "clean") == BrokerIdentity(
        "MkU3OEVBNTcwNTJENDM2Qk", 1, (id_bytes("eFY3g7xCOlPBlIy0q0wRtw"),)
    )


async def test_a_new_directory_joins_the_cluster_of_an_existing_directory(tmp_path: Path) -> None:
    alone = await prepared_identity(tmp_path / "a")
    both = await prepared_identity(tmp_path / "a", tmp_path / "b", seed=2)
    assert both.cluster_id == alone.cluster_id
    assert both.directory_ids[0] == alone.directory_ids[0] != both.directory_ids[1]
    assert not (tmp_path / "b" / "bootstrap.checkpoint").exists()


async def test_a_directory_is_formatted_with_the_requested_cluster_id_and_keeps_it(tmp_path: Path) -> None:
    assert (await prepared_identity(tmp_path, cluster_id="mine")).cluster_id == "mine"
    with pytest.raises(StartError, match="belongs to cluster mine, not to yours"):
        await prepared_identity(tmp_path, cluster_id="yours")


async def test_a_directory_of_another_node_id_is_refused(tmp_path: Path) -> None:
    await prepared_identity(tmp_path)
    with pytest.raises(StartError, match="belongs to node 1, and this is node 2"):
        await prepared_identity(tmp_path, node_id=2)


async def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    await prepared_identity(tmp_path / "a", seed=1)
    await prepared_identity(tmp_path / "b", seed=2)
    with pytest.raises(StartError, match="remove this directory from log.dirs"):
        await prepared_identity(tmp_path / "a", tmp_path / "b")


async def test_a_copied_directory_id_is_refused(tmp_path: Path) -> None:
    await prepared_identity(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.properties").write_bytes((tmp_path / "a" / "meta.properties").read_bytes())
    with pytest.raises(StartError, match="remove the copy from log.dirs"):
        await prepared_identity(tmp_path / "a", tmp_path / "b")


async def test_a_directory_with_other_files_and_no_meta_properties_is_refused_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(StartError, match=r"holds letters but no meta.properties"):
        await prepared_identity(tmp_path)
    assert disk_at(tmp_path).names("") == ["letters"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version=1", "version=0"),
        ("cluster.id", "cluster"),
        ("node.id=1", "node.id=one"),
        ("directory.id=eFY3g7xCOlPBlIy0q0wRtw", "directory.id=short"),
        ("directory.id=eFY3g7xCOlPBlIy0q0wRtw", "directory.id=AAAAAAAAAAAAAAAAAAAAAQ"),
        ("directory.id=eFY3g7xCOlPBlIy0q0wRtw", ""),
    ],
)
async def test_an_invalid_meta_properties_file_is_refused(tmp_path: Path, old: str, new: str) -> None:
    golden_directory("clean", "clean", tmp_path)
    file = tmp_path / "clean" / "meta.properties"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(StartError, match="restore"):
        await prepared_identity(tmp_path / "clean")


async def test_a_directory_with_partitions_and_no_metadata_log_is_refused(tmp_path: Path) -> None:
    golden_directory("clean", "clean", tmp_path)
    (tmp_path / "clean" / "__cluster_metadata-0").rename(tmp_path / "elsewhere")
    with pytest.raises(StartError, match="which describes them, is missing"):
        await prepared_identity(tmp_path / "clean")
