"""The command `pykbroker topics elect`, which elects leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import ask, bootstrap_option, refuse
from pykbroker.cli.topics.selection import require_selection, selected_partitions, selection_options
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin


@click.command()
@selection_options
@click.option(
    "--unclean",
    is_flag=True,
    help="For partitions without a leader: elect any live replica, even if committed records are lost.",
)
@click.option("--yes", is_flag=True, help="Do not ask before an unclean election.")
@bootstrap_option
def elect(
    selected: Sequence[tuple[str, int | None]], all_topics: bool, unclean: bool, yes: bool, bootstrap: Sequence[Address]
) -> None:
    """Elect the preferred leaders of partitions: the first replica of each.

    Brokers that return after a stop get their leaderships back in this way at once. Without this command, the
    controller does the same within minutes (auto.leader.rebalance.enable).
    """
    require_selection(selected, all_topics=all_topics)
    if unclean and not yes:
        click.confirm("Committed records may be lost. Elect leaders that are not in the ISR?", abort=True, err=True)

    async def work(admin: Admin) -> None:
        from pykbroker.client.admin.elections import elect_leaders
        from wire.error_codes import ErrorCode

        partitions = None if all_topics else [one for one, _ in await selected_partitions(admin, selected)]
        outcomes = await elect_leaders(admin, partitions, unclean=unclean)
        elected = sorted(one for one, error in outcomes.items() if error is None)
        failures = [error for error in outcomes.values() if error is not None]
        unneeded = [error for error in failures if error.code is ErrorCode.ELECTION_NOT_NEEDED]
        if elected:
            click.echo(f"Elected the {'leader' if unclean else 'preferred leader'} of {', '.join(map(str, elected))}.")
        if unneeded:
            click.echo(f"{len(unneeded)} of the partitions did not need an election.")
        elif not outcomes:
            click.echo("No partition needed an election.")
        refuse(str(error) for error in failures if error not in unneeded)

    ask(bootstrap, work)
