"""The owner of a directory: an empty directory is formatted, and another cluster's is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.ids import id_bytes
from pykbroker.quorum.identity import BrokerIdentity, prepare
from tests.unit.core.metadata.harness import NOW_MS
from tests.unit.quorum.logs import disk_at, golden_directory


async def prepared(*paths: Path, node_id: int = 1, seed: int = 1, cluster_id: str | None = None) -> BrokerIdentity:
    return await prepare([disk_at(path) for path in paths], node_id, random.Random(seed), NOW_MS, cluster_id)


async def test_an_empty_directory_is_formatted_and_known_again(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    identity = await prepared(tmp_path)
    assert (tmp_path / "meta.properties").read_text().splitlines()[:2] == ["#", "#Sat Nov 21 13:02:38 UTC 2026"]
    assert (tmp_path / "bootstrap.checkpoint").stat().st_size == 411
    assert identity.node_id == 1
    assert len(id_bytes(identity.cluster_id)) == 16
    assert await prepared(tmp_path, seed=2) == identity


async def test_formatting_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"half")
    (tmp_path / "meta.properties.tmp").write_bytes(b"half")
    identity = await prepared(tmp_path)
    assert (tmp_path / "bootstrap.checkpoint").stat().st_size == 411
    assert await prepared(tmp_path, seed=2) == identity


async def test_a_first_start_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    identity = await prepared(tmp_path)
    log = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    log.parent.mkdir()
    assert await prepared(tmp_path, seed=2) == identity
    log.touch()
    assert await prepared(tmp_path, seed=2) == identity


async def test_kafkas_directory(tmp_path: Path) -> None:
    golden_directory("clean", "clean", tmp_path)
    assert await prepared(tmp_path / "clean") == BrokerIdentity(
        "MkU3OEVBNTcwNTJENDM2Qk", 1, (id_bytes("eFY3g7xCOlPBlIy0q0wRtw"),)
    )


async def test_a_new_directory_beside_an_old_one_joins_its_cluster(tmp_path: Path) -> None:
    alone = await prepared(tmp_path / "a")
    both = await prepared(tmp_path / "a", tmp_path / "b", seed=2)
    assert both.cluster_id == alone.cluster_id
    assert both.directory_ids[0] == alone.directory_ids[0] != both.directory_ids[1]
    assert not (tmp_path / "b" / "bootstrap.checkpoint").exists()


async def test_a_cluster_id_that_was_asked_for(tmp_path: Path) -> None:
    assert (await prepared(tmp_path, cluster_id="mine")).cluster_id == "mine"
    with pytest.raises(StartError, match="belongs to cluster mine, not to yours"):
        await prepared(tmp_path, cluster_id="yours")


async def test_another_node(tmp_path: Path) -> None:
    await prepared(tmp_path)
    with pytest.raises(StartError, match="belongs to node 1, and this is node 2"):
        await prepared(tmp_path, node_id=2)


async def test_directories_of_two_clusters(tmp_path: Path) -> None:
    await prepared(tmp_path / "a", seed=1)
    await prepared(tmp_path / "b", seed=2)
    with pytest.raises(StartError, match="remove this directory from log.dirs"):
        await prepared(tmp_path / "a", tmp_path / "b")


async def test_a_copied_directory(tmp_path: Path) -> None:
    await prepared(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.properties").write_bytes((tmp_path / "a" / "meta.properties").read_bytes())
    with pytest.raises(StartError, match="remove the copy from log.dirs"):
        await prepared(tmp_path / "a", tmp_path / "b")


async def test_somebody_elses_directory(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(StartError, match=r"holds letters but no meta.properties"):
        await prepared(tmp_path)
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
async def test_a_file_that_says_what_cannot_be(tmp_path: Path, old: str, new: str) -> None:
    golden_directory("clean", "clean", tmp_path)
    file = tmp_path / "clean" / "meta.properties"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(StartError, match="restore"):
        await prepared(tmp_path / "clean")


async def test_partitions_without_their_metadata_are_not_taken_for_strangers(tmp_path: Path) -> None:
    golden_directory("clean", "clean", tmp_path)
    (tmp_path / "clean" / "__cluster_metadata-0").rename(tmp_path / "elsewhere")
    with pytest.raises(StartError, match="which describes them, is missing"):
        await prepared(tmp_path / "clean")
