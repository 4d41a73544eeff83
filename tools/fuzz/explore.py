"""Fuzzing guided by coverage: an input is kept if it runs two lines in direct succession for the first time."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from tools.fuzz.fuzzed_broker import FuzzedBroker, fuzzed_broker
from tools.fuzz.mutate import costly, frame_of, mutated
from tools.fuzz.values import Maker

ROOT = Path(__file__).parents[2]
OURS = (str(ROOT / "pykbroker"), str(ROOT / "wire"), "<")
"""The names of the code whose coverage is recorded, including code compiled from declarations, which has no file."""
INPUTS_PER_BROKER = 2000
"""The number of inputs per broker. Requests lose their effect as topics are created and deleted."""
CANARY_EVERY = 50
REMEMBERED = 200
"""The number of earlier inputs that are reported with a finding, which may depend on their effects."""


class Edges:
    """Pairs of lines of the recorded code that ran in direct succession in a function."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int, int]] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record pairs of lines while the block runs."""
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, given: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        number, last, add = id(code), 0, self.seen.add

        def ran(frame: FrameType, event: str, given: Any) -> Any:
            nonlocal last
            if event == "line":
                add((number, last, frame.f_lineno))
                last = frame.f_lineno
            return ran

        return ran


class Explorer:
    """A corpus of inputs that grows. `history` has the inputs of the running broker, the newest last."""

    def __init__(self, seed: int, corpus: Path | None) -> None:
        self.dice, self.edges, self.inputs = random.Random(seed), Edges(), 0
        self.history: list[bytes] = []
        self._directory = corpus
        self.corpus = [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus else []

    async def run(self, enough: Callable[[], bool]) -> None:
        """Fuzz one broker after another until the limit; raise Finding if a check fails."""
        while not enough():
            self.history.clear()
            with TemporaryDirectory(prefix="fuzz-") as directory:
                async with fuzzed_broker(Path(directory), self.dice.getrandbits(32)) as running:
                    await self._live(running, enough)

    async def _live(self, running: FuzzedBroker, enough: Callable[[], bool]) -> None:
        maker = Maker(self.dice, await running.topic_ids())
        apis = await running.served()
        seeds = [frame_of(maker, key, version) for key, versions in apis for version in versions]
        for number in range(INPUTS_PER_BROKER):
            if enough():
                return
            data = mutated(maker, self.dice.choice(self.corpus if self.corpus and number % 3 else seeds))
            if not costly(data):
                await self._try(running, data)
            if number % CANARY_EVERY == 0:
                await running.check_canary()

    async def _try(self, running: FuzzedBroker, data: bytes) -> None:
        self.inputs += 1
        self.history = [*self.history[1 - REMEMBERED :], data]
        before = len(self.edges.seen)
        with self.edges.watched():
            await running.feed(data)
        if len(self.edges.seen) > before:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        self.corpus.append(data)
        if self._directory:
            (self._directory / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


async def replay(inputs: list[bytes]) -> None:
    """Send all inputs to one broker; raise Finding if a check fails."""
    with TemporaryDirectory(prefix="fuzz-") as directory:
        async with fuzzed_broker(Path(directory), 0) as running:
            for data in inputs:
                await running.feed(data)
            await running.check_canary()
