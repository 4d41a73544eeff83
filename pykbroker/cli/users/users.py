"""The commands of `pykbroker users`, which add, list and remove the users who log in by SCRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import asking, refuse
from pykbroker.cli.completion import user_names
from pykbroker.cli.tables import Table, json_option

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin


@click.group()
def users() -> None:
    """Add, list and remove the users of a running cluster who log in by SCRAM."""


@users.command()
@click.argument("users", nargs=-1, required=True, metavar="NAME[:PASSWORD]|@FILE...")
@asking
async def add(admin: Admin, users: tuple[str, ...]) -> None:
    """Let users log in by SCRAM-SHA-256 and SCRAM-SHA-512.

    Without a PASSWORD, one is made and printed. Other users of the machine see the words of a command, so that @FILE,
    with a user on each line, is better for passwords. A user who exists gets the new password.
    """
    from pykbroker.cli.new_users import new_salt, new_users
    from pykbroker.client.admin.users import add_user, describe_users

    known = await describe_users(admin)
    for user in new_users(users, "NAME"):
        await add_user(admin, user.name, user.password, new_salt)
        click.echo(f"user {user.name} " + ("has another password" if user.name in known else "is added"))
        if user.is_generated:
            click.echo(f"the password of {user.name} is {user.password.reveal()}: note it, it is not shown again")


@users.command("list")
@json_option
@asking
async def list_users(admin: Admin, as_json: bool) -> None:
    """List the users, and the mechanisms by which each may log in."""
    from pykbroker.client.admin.users import describe_users
    from pykbroker.core.security.sasl.scram import SCRAM_HASHES

    names = {of.number: of.mechanism for of in SCRAM_HASHES.values()}
    found = await describe_users(admin)
    rows = [
        (user, names.get(info.mechanism, str(info.mechanism)), info.iterations)
        for user in sorted(found)
        for info in sorted(found[user], key=lambda each: each.mechanism)
    ]
    Table(("user", "mechanism", "iterations"), rows).show(as_json=as_json)


@users.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=user_names)
@asking
async def remove(admin: Admin, names: tuple[str, ...]) -> None:
    """Remove users, who cannot log in any more. Their open connections stay."""
    from pykbroker.client.admin.users import describe_users, remove_user

    known = await describe_users(admin)
    for name in dict.fromkeys(names):
        if name in known:
            await remove_user(admin, name, [info.mechanism for info in known[name]])
            click.echo(f"user {name} is removed")
    refuse(f"there is no user {name}: `pykbroker users list` lists all" for name in names if name not in known)
