"""Commands of pykbroker that run in the process of the test, which takes a fifth of the time of a process of their own.

They are for tests of what a command does. Tests of signals, of closed outputs and of the exit need a process.
"""

from __future__ import annotations

from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker


def run_here(*words: object, stdin: bytes = b"") -> Result:
    """Run `pykbroker ...` with these words; raise the exception that it does not handle."""
    result = CliRunner().invoke(pykbroker, [*map(str, words)], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
