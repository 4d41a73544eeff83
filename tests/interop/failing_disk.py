"""A program that runs `pykbroker` on a disk that fails on request: `python failing_disk.py FILE start ...`.

While FILE contains the name of an errno, such as ENOSPC or EIO, every write and fsync fails with it. If the name of a
function follows, only its calls fail: "ENOSPC pwrite" is a full disk.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykbroker.__main__ import main
from pykbroker.world import system_disk


def refusing(function: Callable[..., Any], fault: Path) -> Callable[..., Any]:
    """Return a wrapper of `function` that raises OSError while the file `fault` contains an errno."""

    def call(*args: Any) -> Any:
        name, _, only = fault.read_text().partition(" ") if fault.exists() else ("", "", "")
        if name and only in ("", function.__name__):
            number = getattr(errno, name)
            raise OSError(number, os.strerror(number))
        return function(*args)

    return call


if __name__ == "__main__":
    failing = Path(sys.argv.pop(1))
    for function in ("pwrite", "sync_descriptor"):
        setattr(system_disk, function, refusing(getattr(system_disk, function), failing))
    main()
