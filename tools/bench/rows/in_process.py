"""A program that prints the seconds from the call of `running_broker` to the first Metadata response."""

from __future__ import annotations

import importlib
import time

from pykbroker.testing import running_broker
from tools.bench import frames


def main() -> None:
    """Start one broker in this process; print the seconds."""
    importlib.import_module("pykbroker.broker")
    begun = time.perf_counter()
    with running_broker() as running, frames.Caller(int(running.bootstrap.rpartition(":")[2])) as caller:
        caller.call(frames.metadata())
        print(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
