"""The places of archives and states: two spellings of a directory are one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.compact import require_apart
from pykbroker.pipeline.jobs.state_owner import StateOwner


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an archive with a second name in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to("lake")
    return tmp_path / "lake"


@pytest.mark.parametrize("archive", ["lake", "link", "./x/../lake", "{}", "file://{}"])
@pytest.mark.parametrize("state", ["{}", "{}/state", "link/state", "file:{}/state", "link/../lake", "."])
def test_a_state_never_overlaps_its_archive(lake: Path, archive: str, state: str) -> None:
    with pytest.raises(PipelineError, match="overlap: choose a directory beside the archive"):
        require_apart(archive.format(lake), state.format(lake))


@pytest.mark.parametrize("state", ["lakes", "../lake", "link.state", "lake?x", "hdfs://host/state", "a.b.c"])
def test_a_state_beside_the_archive_is_apart(state: str) -> None:
    require_apart("lake", state)


def test_the_owner_of_a_state_is_the_same_in_every_spelling(lake: Path) -> None:
    content = b'{"job":"compact","archive":"link","format":"parquet","topics":[]}'
    StateOwner("compact", str(lake), "parquet", []).require(content, "state")
    StateOwner("compact", f"file://{lake}", "parquet", []).require(content, "state")
    for other in (StateOwner("compact", "lakes", "parquet", []), StateOwner("compact", "link", "parquet", ["t"])):
        with pytest.raises(StateConflict, match="has the state of all topics of the archive link"):
            other.require(content, "state")
