"""Failures of starting, told to the operator: what is wrong, and which option helps."""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.errors import StartError
from pykbroker.core.settings import Settings
from pykbroker.world.disk import Locked


def explain(error: BaseException, settings: Settings) -> str | None:
    """A sentence, or None for what only a traceback explains."""
    reasons = [explain_one(each, settings) for each in leaves(error)]
    return None if None in reasons else "; ".join(dict.fromkeys(filter(None, reasons)))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The failures inside of groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def explain_one(error: BaseException, settings: Settings) -> str | None:
    """A sentence for one failure, or None."""
    match error:
        case StartError():
            return str(error)
        case Locked():
            dirs = ", ".join(settings.data_dirs)
            return f"another broker uses the data in {dirs}: stop it, or name another directory with --data-dir"
        case OSError(filename=str() as path):
            return f"{path}: {error.strerror}"
    return None
