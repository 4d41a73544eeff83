"""The state in which a task leaves its process to the next one, and the sockets at its start."""

from __future__ import annotations

import fcntl
import gc
import os
import socket
import subprocess
import sys
import termios
from zipfile import ZipFile

import pytest

from pykbroker.pipeline.source.worker_reuse import acknowledge_input, prepare_next_task

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


def unacknowledged(sender: socket.socket) -> int:
    """Return the bytes that were sent and that the receiver has not acknowledged."""
    return int.from_bytes(fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="TCP_QUICKACK is an option of Linux")
def test_the_input_of_a_task_is_acknowledged_before_all_of_it_is_there() -> None:
    """An answer to earlier input makes the kernel delay later acknowledgements, as between Spark and its workers."""
    descriptors = os.listdir("/dev/fd")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as spark:
        worker, _ = server.accept()
        with worker:
            for _ in range(100):
                spark.sendall(b"task")
                assert worker.recv(10) == b"task"
                worker.sendall(b"rows")
                assert spark.recv(10) == b"rows"
                spark.sendall(b"the first part")
                assert worker.recv(20) == b"the first part"
                was_delayed = unacknowledged(spark) > 0
                acknowledge_input()
                assert unacknowledged(spark) == 0
                if was_delayed:
                    break
            assert was_delayed
    assert os.listdir("/dev/fd") == descriptors
