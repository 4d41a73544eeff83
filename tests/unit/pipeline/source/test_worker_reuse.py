"""The state in which a task leaves its process to the next one."""

from __future__ import annotations

import gc
import subprocess
import sys
from zipfile import ZipFile

import pytest

from pykbroker.pipeline.source.worker_reuse import prepare_next_task

IN_A_WORKER = """
import gc, sys
from types import SimpleNamespace
from pykbroker.pipeline.source.worker_reuse import WORKER, prepare_next_task
sys.modules["__main__"].__spec__ = SimpleNamespace(name=WORKER)
prepare_next_task()
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
prepare_next_task()
print(first > 1000, gc.get_freeze_count() == first)
"""


def test_importers_of_archives_are_forgotten(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "modules.zip"
    with ZipFile(archive, "w") as opened:
        opened.writestr("from_archive_of_test.py", "FOUND = 1")
    monkeypatch.syspath_prepend(str(archive))
    assert __import__("from_archive_of_test").FOUND == 1
    assert str(archive) in sys.path_importer_cache
    prepare_next_task()
    assert str(archive) not in sys.path_importer_cache


def test_a_process_of_the_user_keeps_its_collection_of_garbage() -> None:
    before = gc.get_freeze_count()
    prepare_next_task()
    assert gc.get_freeze_count() == before


def test_a_worker_exempts_its_modules_once() -> None:
    found = subprocess.run([sys.executable, "-c", IN_A_WORKER], capture_output=True, text=True, check=True, timeout=50)
    assert found.stdout.split() == ["True", "True"]
