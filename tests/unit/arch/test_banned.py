"""The ruff rules that ban direct use of disk, network, clock and randomness outside the exempted packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCSTRING = '"""A file."""\n\n'


def found_by_ruff(path: str, text: str) -> str:
    """Return the output of `ruff check` for `text`, as if it were the file at `path`."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "check", "--no-cache", "--output-format=concise", "--stdin-filename", path, "-"]
    return subprocess.run(command, cwd=ROOT, input=DOCSTRING + text, capture_output=True, text=True, timeout=50).stdout


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("pykbroker/storage/log/log.py", "import time\n\nnow = time.time()\n", "TID251"),
        ("pykbroker/broker/parts.py", "from random import Random\n\nrng = Random()\n", "TID251"),
        ("pykbroker/server/listener.py", "import trio\n\nserve = trio.serve_tcp\n", "TID251"),
        ("pykbroker/storage/log/log.py", "from trio import to_thread\n\nrun = to_thread.run_sync\n", "TID251"),
        ("pykbroker/storage/log/log.py", "import trio\n\nrun = trio.to_thread.run_sync\n", "TID251"),
        ("pykbroker/core/names.py", "from pathlib import Path\n\nhere = Path()\n", "TID251"),
        ("pykbroker/server/listener.py", 'print("up")\n', "T201"),
        ("pykbroker/core/names.py", "def legal(name: str) -> bool:\n    return bool(name)\n", "D103"),
        ("wire/frame.py", "import pickle\n\ndata = pickle.loads(b'')\n", "S301"),
        ("pykbroker/server/listener.py", "from . import table\n\nTABLE = table\n", "TID252"),
    ],
)
def test_a_banned_call_is_found(path, text, rule):
    assert rule in found_by_ruff(path, text)


@pytest.mark.parametrize(
    "path",
    [
        "pykbroker/world/clock.py",
        "pykbroker/sim/clock.py",
        "pykbroker/cli/start/start.py",
        "tools/x.py",
        "tests/unit/x.py",
    ],
)
def test_exempted_packages_may_use_disk_network_and_clock_directly(path):
    assert "TID251" not in found_by_ruff(path, "import time\n\nnow = time.time()\n")
