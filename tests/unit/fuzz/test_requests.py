"""Tests of every API in every advertised version with valid and mutated requests."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
import trio

from tools.fuzz.fuzzed_broker import Finding, FuzzedBroker, fuzzed_broker
from tools.fuzz.mutate import costly, frame_of, mutated
from tools.fuzz.values import Maker
from wire.api import ApiKey
from wire.apis import APIS

SEED = 20261121
INPUTS_OF_VERSION = 200
MEASURED_OF_VERSION = 5
CANARY_EVERY = 50

ADVERTISED = [key for key, api in APIS.items() if api.advertised is not None]


async def fuzzed(
    running: FuzzedBroker, maker: Maker, key: ApiKey, version: int, inputs: int, *, measured: bool
) -> None:
    """Send `inputs` valid requests, each followed by mutations of it."""
    for number in range(inputs):
        frame = frame_of(maker, key, version)
        data = frame if number % 3 == 0 else mutated(maker, frame)
        if maker.dice.random() < 0.1:
            data += mutated(maker, frame)
        if costly(data):
            continue
        try:
            await (running.feed_measured(data) if measured else running.feed(data))
            if number % CANARY_EVERY == 0:
                await running.check_canary()
        except Finding as found:
            found.add_note(f"{key.name} version {version}: {data.hex()}")
            raise


@pytest.mark.parametrize("key", ADVERTISED, ids=lambda key: key.name.lower())
def test_every_api_survives_valid_and_mutated_requests(key: ApiKey, tmp_path: Path) -> None:
    async def main() -> None:
        async with fuzzed_broker(tmp_path, SEED) as running:
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
