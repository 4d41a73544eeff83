"""The completion of arguments in a shell: names of the topics, groups and users of the cluster."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import BOOTSTRAP_VARIABLE, CLIENT_ID
from pykbroker.cli.client_config import security_of_command
from pykbroker.cli.own_address import default_bootstrap
from pykbroker.cli.parameters import bootstrap_servers

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

ANSWER_S_MAX = 1.0
"""The longest time that a shell waits for words. Without an answer there are none."""


def topic_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin with a text. Internal topics have to begin with an underscore of the user."""

    async def found(admin: Admin) -> Iterable[str]:
        return [each.name for each in await admin.topics() if incomplete or not each.name.startswith("__")]

    return words(context, found, incomplete)


def group_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups that begin with a text."""

    async def found(admin: Admin) -> Iterable[str]:
        from pykbroker.client.admin.groups import list_groups

        return [each.group for each in await list_groups(admin)]

    return words(context, found, incomplete)


def user_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the users who log in by SCRAM and whose names begin with a text."""

    async def found(admin: Admin) -> Iterable[str]:
        from pykbroker.client.admin.users import describe_users

        return await describe_users(admin)

    return words(context, found, incomplete)


def words(context: click.Context, find: Callable[[Admin], Awaitable[Iterable[str]]], incomplete: str) -> list[str]:
    """Return the words that an admin client finds and that begin with a text. After a failure, return no words."""
    import trio

    from pykbroker.client.admin.admin_session import with_admin

    async def run() -> Iterable[str]:
        given = context.params.get("bootstrap")
        bootstrap = given or bootstrap_servers(os.environ.get(BOOTSTRAP_VARIABLE) or default_bootstrap())
        with trio.move_on_after(ANSWER_S_MAX):
            return await with_admin(bootstrap, CLIENT_ID, find, security_of_command(context))
        return ()

    try:
        return [each for each in trio.run(run) if each.startswith(incomplete)]
    except Exception:  # noqa: BLE001 - the user is typing: an error would only spoil the line
        return []
