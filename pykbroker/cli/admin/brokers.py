"""The command `pykbroker brokers`, which lists the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import asking
from pykbroker.cli.tables import Table, json_option

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin, TopicDescription
    from pykbroker.client.admin.cluster_description import BrokerDescription

COLUMNS = ("broker", "address", "rack", "state", "controller", "leads", "follows", "under_replicated", "not_in_isr")

HIDDEN = (
    "This user may not know the controller, and only the topics that it may describe are counted: pykbroker acls allow"
    " USER DESCRIBE --cluster, and --topic '*', would change that."
)


@click.command()
@json_option
@asking
async def brokers(admin: Admin, as_json: bool) -> None:
    """List the brokers of a cluster, and how many partitions each leads and follows.

    UNDER REPLICATED are the partitions that the broker leads and whose ISR lacks a replica. NOT IN ISR are the
    partitions of which the broker has a replica that is not in the ISR.
    """
    from pykbroker.client.admin.cluster_description import describe_brokers, find_controller
    from pykbroker.core.errors import ApiError

    described = await describe_brokers(admin)
    topics = await admin.topics()
    controller, is_hidden = None, False
    try:
        controller = await find_controller(admin)
    except ApiError:
        is_hidden = True
    Table(COLUMNS, rows(described, topics, controller, is_hidden=is_hidden)).show(as_json=as_json)
    if is_hidden:
        click.echo(HIDDEN, err=True)
    elif controller is None:
        click.echo("The controller does not answer: no leader is elected until it does.", err=True)
    elif all(each.broker != controller for each in described):
        click.echo(f"The controller is node {controller}, which is not a broker.", err=True)


def rows(
    described: Iterable[BrokerDescription],
    topics: Iterable[TopicDescription],
    controller: int | None,
    *,
    is_hidden: bool,
) -> list[tuple[Any, ...]]:
    """Return a row for each broker. A broker that has replicas but is not registered is `absent`.

    `is_hidden`: this user may not know the controller.
    """
    known = {each.broker: each for each in described}
    counts: dict[int, list[int]] = {broker: [0, 0, 0, 0] for broker in known}
    for topic in topics:
        for part in topic.partitions:
            for broker in part.replica_nodes:
                of_broker = counts.setdefault(broker, [0, 0, 0, 0])
                leads = broker == part.leader_id
                of_broker[0 if leads else 1] += 1
                of_broker[2] += leads and len(part.isr_nodes) < len(part.replica_nodes)
                of_broker[3] += broker not in part.isr_nodes
    return [
        (broker, *facts(known.get(broker)), None if is_hidden else broker == controller, *counts[broker])
        for broker in sorted(counts)
    ]


def facts(broker: BrokerDescription | None) -> tuple[str | None, str | None, str]:
    """Return the address, the rack and the state of a broker, which is None if it is not registered."""
    if broker is None:
        return None, None, "absent"
    return str(broker.address), broker.rack, "fenced" if broker.fenced else "unfenced"
