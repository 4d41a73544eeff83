"""A program that runs a broker which measures its own event-loop steps.

It prints its addresses as one line of JSON, and then answers each line of its standard input with a line of JSON:
`begin` forgets the steps so far, `found` returns the longest ones, and `in_sync N` whether all partitions have a leader
and an ISR of N brokers.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import trio

from pykbroker import broker
from pykbroker.cli.start.process import garbage_collector_off, settle_garbage_collector
from pykbroker.core.address import Address, parse_address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.settings import Serving, Settings
from tools.bench.step_watch import StepWatch

HOST = "127.0.0.1"


def settings_of(directory: str, port: int, controller: str, configs: dict[str, str]) -> Settings:
    """Return the settings of a broker, which is the controller, too, if it has no other one."""
    own = (ListenerSettings("CONTROLLER", Address(HOST, 0)),)
    return Settings(
        BrokerConfig.from_mapping(configs),
        (directory,),
        listeners=(ListenerSettings(address=Address(HOST, port)),),
        controller_listeners=() if controller else own,
        quorum=(parse_address(controller),) if controller else (),
        memory=True,
    )


def are_in_sync(image: MetadataImage, size: int) -> bool:
    """Whether every partition has a leader and an ISR of this size."""
    partitions = [one for topic in image.topics.by_id.values() for one in topic.partitions.values()]
    return all(one.leader >= 0 and len(one.isr) == size for one in partitions)


async def answer(line: str, watch: StepWatch, serving: Serving) -> Any:
    """Return the answer to a line."""
    word, *arguments = line.split()
    if word == "begin":
        watch.begin()
        return True
    if word == "found":
        return watch.found()
    image = serving.observer.parts.image()
    # In a thread of its own the look is no step of the event loop.
    return await trio.to_thread.run_sync(are_in_sync, image, int(arguments[0]))


async def run(settings: Settings) -> None:
    """Run the broker until the standard input ends."""
    served: list[Serving] = []
    ready, watch = trio.Event(), StepWatch()

    def note(serving: Serving) -> None:
        settle_garbage_collector()
        served.append(serving)
        ready.set()

    async with trio.open_nursery() as nursery:
        trio.lowlevel.add_instrument(watch)
        nursery.start_soon(partial(broker.serve, settings, note))
        await ready.wait()
        controllers = served[0].controller_listeners.values()
        print(json.dumps({"port": served[0].port, "controller": [str(one) for one in controllers]}), flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            print(json.dumps(await answer(line, watch, served[0])), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    directory, port, controller, configs = sys.argv[1:]
    with garbage_collector_off():  # as `pykbroker start` does
        trio.run(run, settings_of(directory, int(port), controller, json.loads(configs)))
