"""The runs of clients under faults: producers, transactions and groups, each with its findings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from pykbroker.sim.clients.cluster_faults import ClusterFaults
from pykbroker.sim.clients.consuming import GROUP as READERS
from pykbroker.sim.clients.consuming import ConsumerRun
from pykbroker.sim.clients.producing import ProducerRun
from pykbroker.sim.clients.stage import ClientStage
from pykbroker.sim.clients.transacting import GROUP, TRANSACTIONAL_ID, TransactionRun
from pykbroker.sim.simulation import Simulation

KINDS = ClusterFaults.KINDS
FAULTS_S, RUN_S_MAX = 20.0, 600.0
"""The time with faults, and the time after which a run hangs, both in simulated seconds."""


async def produce(simulation: Simulation, kinds: Iterable[str] = (*KINDS, ClusterFaults.UNCLEAN)) -> list[str]:
    """Run an idempotent producer, whose unacknowledged batches may be lost with their leader."""
    stage = ClientStage(simulation)
    run, faults = ProducerRun(stage), ClusterFaults(stage, kinds)
    await _under(faults, stage, run.run)
    run.check(idempotent=True)
    return stage.findings


async def produce_at_least_once(simulation: Simulation) -> list[str]:
    """Run a producer without idempotence, which may repeat records and change their order."""
    stage = ClientStage(simulation)
    run, faults = ProducerRun(stage, enable_idempotence=False), ClusterFaults(stage)
    await _under(faults, stage, run.run)
    run.check(idempotent=False)
    return stage.findings


async def transact(simulation: Simulation, kinds: Iterable[str] = KINDS) -> list[str]:
    """Run transactions, some of which a second producer fences."""
    stage = ClientStage(simulation)
    run, faults = TransactionRun(stage), ClusterFaults(stage, kinds, [GROUP], [TRANSACTIONAL_ID])
    await _under(faults, stage, run.run)
    run.check()
    return stage.findings


async def consume(simulation: Simulation, kinds: Iterable[str] = (*KINDS, ClusterFaults.DAMAGE)) -> list[str]:
    """Run the members of a group."""
    stage, calm = ClientStage(simulation), trio.Event()
    run, faults = ConsumerRun(stage), ClusterFaults(stage, kinds, [READERS])
    await _under(faults, stage, lambda: run.run(calm), calm)
    await run.check()
    return stage.findings


SCENES: dict[str, Callable[[Simulation], Awaitable[list[str]]]] = {
    each.__name__.replace("_", "-"): each for each in (produce, produce_at_least_once, transact, consume)
}


async def _under(
    faults: ClusterFaults, stage: ClientStage, work: Callable[[], Awaitable[None]], calm: trio.Event | None = None
) -> None:
    """Do the work while faults happen, and set `calm` after the last one."""

    async def inject() -> None:
        await faults.run(FAULTS_S)
        if calm is not None:
            calm.set()

    with trio.move_on_after(RUN_S_MAX) as scope:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(inject)
                await work()
                nursery.cancel_scope.cancel()
        except* Exception as errors:  # noqa: BLE001 - whatever ends a client is a finding
            stage.findings.append(f"crash: {describe(errors)}")
    faults.end()
    stage.expect(not scope.cancelled_caught, f"hang: the clients have not ended after {RUN_S_MAX:.0f} s")


def describe(error: BaseException) -> str:
    """Return the first error of a group."""
    return describe(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else repr(error)
