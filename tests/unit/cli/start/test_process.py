"""Tests of settings of the whole process: memory allocation, garbage collection."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykbroker.cli.start.process import GARBAGE_THRESHOLDS, settle_garbage_collector

FAULTS = """
import resource, sys
from pykbroker.cli.start.process import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def batch():
    frame = bytearray(1_000_000)
    return bytes(frame)
batch()
before = faults()
for _ in range(50):
    batch()
print(faults() - before)
"""

STARTED = """
from pykbroker.cli.start.process import keep_freed_memory, return_freed_memory
def pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
keep_freed_memory()
start = [bytes(5_000) for _ in range(5_000)]
kept = bytes(5_000)
used = pages()
del start
freed = pages()
return_freed_memory()
print(used, freed, pages())
"""


def page_faults(how: str) -> int:
    """Return the number of page faults while 50 batches of 1 MB are copied in sequence."""
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives freed memory back at once")
def test_memory_of_a_freed_batch_is_reused_for_the_next_batch():
    assert page_faults("kept") < 500
    assert page_faults("given back") > 5_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory")
def test_memory_that_the_start_has_freed_is_returned_although_that_of_batches_is_kept():
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    used, freed, returned = map(int, done.stdout.split())
    assert freed > used - 1_000
    assert returned < freed - 4_000


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """Yield the phases of the garbage collections since the test began, and restore the collector afterwards."""
    thresholds, found = gc.get_threshold(), list[str]()

    def note(phase: str, _: dict[str, int]) -> None:
        found.append(phase)

    gc.disable()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_objects_of_the_start_are_exempted_without_a_collection_which_would_stop_the_event_loop(collections: list[str]):
    settle_garbage_collector()
    assert collections == []
    assert gc.get_freeze_count() > 1000
    assert gc.isenabled()
    assert gc.get_threshold() == GARBAGE_THRESHOLDS


ENDED = """
import sys
from pykbroker.cli.start.process import settle_garbage_collector
class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("collected")
if sys.argv[1] == "settled":
    settle_garbage_collector()
Cycle()
"""


@pytest.mark.parametrize(("how", "printed"), [("settled", ""), ("as usual", "collected")])
def test_the_end_of_the_process_waits_for_no_collection(how: str, printed: str):
    done = subprocess.run([sys.executable, "-c", ENDED, how], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
