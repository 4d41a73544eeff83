"""Processes that run scenes: a simulation patches modules and seeds trio, so that each run has one of its own.

To import the broker and to compile the codecs of all versions takes a second, as long as most runs. A process that has
done so is thus forked for each run: `python -m tests.unit.sim.processes`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from wire.api import ApiKey
from wire.apis import APIS
from wire.compile import decoder, encoder

ROOT = Path(__file__).parents[3]
HASH_SEED = "PYTHONHASHSEED"
NEEDED = ("pytest", "pykbroker.sim.scenario", "pykbroker.sim.cluster.scenario", "pykbroker.sim.clients.scenes")
"""Modules that most scenes import."""
IN_ALL_VERSIONS = (ApiKey.PRODUCE, ApiKey.FETCH)
"""The APIs that simulated clients use in every version."""
FRESH = """
import gc, sys
path, scene, seed, junk, threshold = sys.argv[1:]
heap = [bytearray(size) for size in range(int(junk))]
del heap[::2]
gc.set_threshold(int(threshold))
from tests.unit.sim.processes import print_run
print_run(path, scene, int(seed))
"""
RUN_S_MAX = 200


class Outcome(NamedTuple):
    """The end of a process: its exit status and what it has printed."""

    status: int
    output: str
    errors: str


def print_run(path: str, scene: str, seed: int) -> None:
    """Run a scene of a file in this process, and print its result and the digest of the run."""
    from pykbroker.sim.simulation import simulate

    spec = importlib.util.spec_from_file_location("scenes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(simulate(seed, getattr(module, scene))), flush=True)


def run_fresh(
    path: str, scene: str, seed: int, *, hash_seed: str = "0", junk: int = 0, threshold: int = 700
) -> Outcome:
    """Run a scene in a new process with a hash seed, objects on the heap, and a threshold of the garbage collector."""
    words = [sys.executable, "-c", FRESH, path, scene, str(seed), str(junk), str(threshold)]
    environ = {**os.environ, HASH_SEED: hash_seed}
    child = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S_MAX, env=environ)
    return Outcome(child.returncode, child.stdout, child.stderr)


class ForkingProcess:
    """A process that has imported the simulation, and is forked for each run. The first run starts it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: str, scene: str, seed: int) -> Outcome:
        """Run a scene in a fork."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.unit.sim.processes"],
                cwd=ROOT,
                env={**os.environ, HASH_SEED: "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        outcome = ""
        try:
            self._process.stdin.write(json.dumps([path, scene, seed]) + "\n")
            self._process.stdin.flush()
            outcome = self._process.stdout.readline()
        finally:
            if not outcome:  # the process has ended, or the test is interrupted
                self.close()
        return Outcome(*json.loads(outcome))

    def close(self) -> None:
        """Kill the process with the run that it waits for."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def fork_runs() -> None:
    """Answer each line with a scene of standard input with the outcome of its run in a fork."""
    for name in NEEDED:
        importlib.import_module(name)
    compile_codecs()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(forked(*json.loads(line))), flush=True)


def compile_codecs() -> None:
    """Compile the codecs of the APIs that are used in all versions."""
    for api in map(APIS.__getitem__, IN_ALL_VERSIONS):
        for version in range(api.accepted.first, api.accepted.last + 1):
            for message in (api.request, api.response):
                encoder(message, version)
                decoder(message, version)


def forked(*run: Any) -> Outcome:
    """Run a scene in a fork of this process."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            status = 1
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                print_run(*run)
                status = 0
            except BaseException:  # noqa: BLE001 - the process that forked never sees it
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
        return Outcome(os.waitstatus_to_exitcode(status), *texts)


if __name__ == "__main__":
    fork_runs()
