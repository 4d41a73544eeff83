"""Sentences for failures that the operator can correct."""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.errors import StartError, StopError


def explain(error: BaseException) -> str | None:
    """Return a sentence about the failure, or None if the failure needs a traceback."""
    reasons = [explain_one(each) for each in leaves(error)]
    return None if None in reasons else "; ".join(dict.fromkeys(filter(None, reasons)))


def explain_end(error: BaseException) -> str | None:
    """Return why a running broker has ended, or None if the failure needs a traceback."""
    reasons = list(leaves(error))
    return str(reasons[0]) if all(isinstance(reason, StopError) for reason in reasons) else None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the failures inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def explain_one(error: BaseException) -> str | None:
    """Return a sentence for one failure, or None."""
    match error:
        case StartError() | StopError():
            return str(error)
        case OSError(filename=str() as path):
            return f"{path}: {error.strerror}"
    return None
