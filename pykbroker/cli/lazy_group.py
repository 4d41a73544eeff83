"""A group of commands, each of which is imported when it runs, so that a command does not wait for the others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

import click


class LazyGroup(click.Group):
    """A group that has the module of each command, in the order of the help.

    A module has its command under its own name.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._modules = modules

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if name not in self._modules:
            return None
        return cast("click.Command", getattr(import_module(self._modules[name]), name.replace("-", "_")))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raise click.UsageError, with similar names, for another word."""
        found = difflib.get_close_matches(args[0], self._modules)
        if found and args[0] not in self._modules and not context.resilient_parsing:
            similar = " or ".join(f"'{name}'" for name in found)
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean {similar}?", context)
        return super().resolve_command(context, args)
