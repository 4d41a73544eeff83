"""The command `pykbroker topics reassign`, which moves partitions to other brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import click

from pykbroker.cli.ask import ask, bootstrap_option, refuse
from pykbroker.cli.tables import Table, counted, json_option
from pykbroker.cli.topics.reassign_plan import (
    PlannedReplicas,
    ReassignmentPlan,
    ReplicaIds,
    Takers,
    brokers_of_option,
    check_brokers,
    check_leaving,
    file_plan,
    moved_away,
    spread,
)
from pykbroker.cli.topics.reassign_progress import progress_table, wait_until_done
from pykbroker.cli.topics.selection import Selection, require_selection, selected_partitions, selection_options
from pykbroker.core.address import Address
from pykbroker.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

PLANNED = ("topic", "partition", "replicas", "new_replicas")


@click.command()
@selection_options
@click.option(
    "--to",
    type=brokers_of_option,
    metavar="BROKER,...",
    help="Give each partition replicas on these brokers. A partition that is named has them in this order, the"
    " preferred leader first; the partitions of a whole topic begin with one broker after the other.",
)
@click.option(
    "--away-from",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="BROKER",
    help="Move the replicas of this broker to others. Repeatable.",
)
@click.option("--from-file", type=click.File(), metavar="FILE", help="Reassign as a file of kafka-reassign-partitions.")
@click.option("--cancel", is_flag=True, help="Cancel reassignments that are in progress.")
@click.option("--wait", is_flag=True, help="Wait until the reassignment has ended, and print its progress on stderr.")
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@click.option("--yes", is_flag=True, help="Reassign without asking.")
@json_option
@bootstrap_option
def reassign(
    selected: Selection,
    all_topics: bool,
    to: ReplicaIds | None,
    away_from: Sequence[int],
    from_file: IO[str] | None,
    cancel: bool,
    wait: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    bootstrap: Sequence[Address],
) -> None:
    """Move partitions to other brokers: print the plan, ask, and begin to move them.

    Without --to, --away-from, --from-file and --cancel, print the reassignments that are in progress. BYTES LEFT is
    what the added replica that is furthest behind must still copy.
    """
    if (to is not None) + bool(away_from) + (from_file is not None and not cancel) + cancel > 1:
        raise click.UsageError("choose one of --to, --away-from, --from-file and --cancel")
    if dry_run and (yes or wait):
        raise click.UsageError("--dry-run only prints the plan: leave out --yes and --wait")
    if from_file is not None and (selected or all_topics):
        raise click.UsageError("--from-file names the partitions: leave out topics and --all-topics")
    of_file = file_plan(from_file.read(), from_file.name) if from_file is not None else None
    if cancel:
        chosen = [(topic, index) for topic, index in of_file] if of_file is not None else selected
        require_selection(chosen, all_topics=all_topics)
        cancel_moves(bootstrap, chosen)
    elif to is None and not away_from and of_file is None:
        if wait:
            wait_until_done(bootstrap, None, selected)
        else:
            ask(bootstrap, lambda admin: progress_table(admin, selected)).show(as_json=as_json)
    else:
        if of_file is None:
            require_selection(selected, all_topics=all_topics)
        plan = ask(bootstrap, lambda admin: plan_of(admin, selected, to, away_from, of_file))
        carry_out(bootstrap, plan, as_json=as_json, dry_run=dry_run, yes=yes, wait=wait)


async def plan_of(
    admin: Admin,
    selected: Selection,
    to: ReplicaIds | None,
    away_from: Sequence[int],
    of_file: dict[TopicPartition, ReplicaIds] | None,
) -> ReassignmentPlan:
    """Return the partitions whose replicas change. click.ClickException: the cluster cannot carry out the plan."""
    from pykbroker.client.admin.cluster_description import describe_brokers

    described = await describe_brokers(admin)
    wanted = [*of_file] if of_file is not None else selected
    current = await settled_replicas(admin, wanted)
    try:
        if of_file is not None:
            found = [PlannedReplicas(one, current[one], new) for one, new in sorted(of_file.items())]
        elif to is not None:
            exact = {TopicPartition(name, index) for name, index in selected if index is not None}
            found = spread(current, to, exact)
        else:
            loads = Counter(one for replicas in (await settled_replicas(admin, ())).values() for one in replicas)
            check_leaving(away_from, {each.broker for each in described}, loads)
            racks = {each.broker: each.rack for each in described if not each.fenced}
            found = moved_away(current, away_from, Takers(racks, loads))
        check_brokers(found, {each.broker for each in described})
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return [each for each in found if each.new != each.replicas]


async def settled_replicas(admin: Admin, selected: Selection) -> dict[TopicPartition, ReplicaIds]:
    """Return the replicas of partitions, without those that a reassignment in progress removes."""
    from pykbroker.client.admin.reassignments import reassignments

    moving = await reassignments(admin)
    return {
        one: moving[one].target if one in moving else tuple(part.replica_nodes)
        for one, part in await selected_partitions(admin, selected)
    }


def carry_out(
    bootstrap: Sequence[Address], plan: ReassignmentPlan, *, as_json: bool, dry_run: bool, yes: bool, wait: bool
) -> None:
    """Print a plan, ask, begin the reassignment, and wait for its end if the user wants to."""
    Table(PLANNED, [(*each.partition, each.replicas, each.new) for each in plan]).show(as_json=as_json)
    if not plan:
        click.echo("All partitions have these replicas already: nothing is reassigned.", err=True)
    if dry_run or not plan:
        return
    if not yes:
        click.confirm(f"Reassign {counted(len(plan), 'partition')}?", abort=True, err=True)
    from pykbroker.client.admin.reassignments import reassign

    outcomes = ask(bootstrap, lambda admin: reassign(admin, {each.partition: each.new for each in plan}))
    begun = [each for each in plan if outcomes.get(each.partition) is None]
    if begun and not as_json:
        click.echo(f"Began to reassign {counted(len(begun), 'partition')}.")
    if wait and begun:
        wait_until_done(bootstrap, {each.partition: each.new for each in begun}, ())
    refuse(str(error) for error in outcomes.values() if error is not None)


def cancel_moves(bootstrap: Sequence[Address], selected: Selection) -> None:
    """Cancel the reassignments of the selected partitions, or of all. click.ClickException: one cannot be cancelled."""

    async def work(admin: Admin) -> None:
        from pykbroker.client.admin.reassignments import reassign, reassignments

        chosen = {one for one, _ in await selected_partitions(admin, selected)}
        moving = {one: None for one in await reassignments(admin) if one in chosen}
        if not moving:
            click.echo("No reassignment of these partitions is in progress.")
            return
        outcomes = await reassign(admin, moving)
        refusals = [str(error) for error in outcomes.values() if error is not None]
        if done := len(outcomes) - len(refusals):
            click.echo(f"Cancelled the reassignment of {counted(done, 'partition')}.")
        refuse(refusals)

    ask(bootstrap, work)
