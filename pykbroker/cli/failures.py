"""Failures that the operator can mend, each as a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.errors import StartError, StopError


def explain(error: BaseException) -> str | None:
    """A sentence, or None for what only a traceback explains."""
    reasons = [explain_one(each) for each in leaves(error)]
    return None if None in reasons else "; ".join(dict.fromkeys(filter(None, reasons)))


def explain_end(error: BaseException) -> str | None:
    """Why a broker that served has ended, in a sentence; None for what only a traceback explains."""
    reasons = list(leaves(error))
    return str(reasons[0]) if all(isinstance(reason, StopError) for reason in reasons) else None


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The failures inside of groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def explain_one(error: BaseException) -> str | None:
    """A sentence for one failure, or None."""
    match error:
        case StartError() | StopError():
            return str(error)
        case OSError(filename=str() as path):
            return f"{path}: {error.strerror}"
    return None
