"""Failures of the producer and the consumer in commands, as sentences, and the option -X for their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pykbroker.cli.parameters import name_in

settings_option = click.option(
    "-X", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the client; may be repeated."
)


def setting(text: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE. The name has underscores instead of dots."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"-X {name_in(text)!r} is no NAME=VALUE, such as -X linger.ms=20")
    return name.replace(".", "_"), value


def failing_as_sentence(
    run: Callable[[], Any], *expected: type[Exception], note: Callable[[], str] = lambda: ""
) -> None:
    """Run a function. click.ClickException: the failure, followed by `note()`.

    Errors of the system, of settings and of Kafka are such failures, and those of the classes `expected`. A closed
    output raises BrokenPipeError, which click handles silently.
    """
    from pykbroker.cli.failures import leaves
    from pykbroker.client.errors import AuthenticationError
    from pykbroker.core.errors import ApiError

    try:
        run()
    except Exception as error:
        reasons = list(leaves(error))
        if broken := [each for each in reasons if isinstance(each, BrokenPipeError)]:
            raise broken[0] from None
        if not all(
            isinstance(each, (*expected, ApiError, AuthenticationError, TimeoutError, ValueError, OSError))
            for each in reasons
        ):
            raise
        text = "; ".join(dict.fromkeys(map(str, reasons)))
        raise click.ClickException(text + note()) from None
