"""Every API in every version that is advertised, nearly right and plainly wrong."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
import trio

from tools.fuzz.house import Finding, House, house
from tools.fuzz.mutate import costly, frame_of, mutated
from tools.fuzz.values import Maker
from wire.api import APIS, ApiKey

SEED = 20261121
INPUTS_OF_VERSION = 200
MEASURED_OF_VERSION = 5
SING_EVERY = 50

ADVERTISED = [key for key, api in APIS.items() if api.advertised is not None]


async def fuzzed(running: House, maker: Maker, key: ApiKey, version: int, inputs: int, *, measured: bool) -> None:
    """Send `inputs` requests, each followed by its mutations."""
    for number in range(inputs):
        frame = frame_of(maker, key, version)
        data = frame if number % 3 == 0 else mutated(maker, frame)
        if maker.dice.random() < 0.1:
            data += mutated(maker, frame)
        if costly(data):
            continue
        try:
            await (running.feed_measured(data) if measured else running.feed(data))
            if number % SING_EVERY == 0:
                await running.sing()
        except Finding as found:
            found.add_note(f"{key.name} version {version}: {data.hex()}")
            raise


@pytest.mark.parametrize("key", ADVERTISED, ids=lambda key: key.name.lower())
def test_an_api_holds_whatever_is_sent(key: ApiKey, tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, SEED) as running:
            served = dict(await running.served())
            maker = Maker(random.Random(f"{SEED} {key}"), await running.topic_ids())
            for version in served.get(key, ()):
                await fuzzed(running, maker, key, version, INPUTS_OF_VERSION, measured=False)
                tracemalloc.start()
                try:
                    await fuzzed(running, maker, key, version, MEASURED_OF_VERSION, measured=True)
                finally:
                    tracemalloc.stop()

    trio.run(main)
