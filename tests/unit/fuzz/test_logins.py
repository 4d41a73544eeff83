"""Tests of the fuzzer of log-ins: it finds a stranger who is let in, another principal, tracebacks and lost tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from pykbroker.core.security.sasl import scram
from pykbroker.core.security.sasl.login import Login
from pykbroker.server.login.logins import Logins
from tools.fuzz.__main__ import main
from tools.fuzz.fuzzed_broker import Finding
from tools.fuzz.logins import fuzz_logins

SEED = 7
SEQUENCES = 400


def run(sequences: int = SEQUENCES) -> None:
    left = [None] * sequences
    trio.run(fuzz_logins, SEED, lambda: not left or bool(left.pop()))


def test_no_sequence_of_requests_lets_a_stranger_in() -> None:
    run()


async def never(*given: Any) -> None:
    await trio.sleep_forever()


def raises(*given: Any, **named: Any) -> Any:
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("of", "name", "planted", "finding"),
    [
        (scram, "proves", lambda *given: True, "the client is User:"),
        (Login, "versions_answered", raises, "planted"),
        (Logins, "delay", never, "tasks are left"),
    ],
)
def test_a_planted_defect_is_found(
    monkeypatch: pytest.MonkeyPatch, of: Any, name: str, planted: Callable[..., Any], finding: str
) -> None:
    monkeypatch.setattr(of, name, planted)
    with pytest.raises(BaseExceptionGroup) as found:
        run()
    first = found.value.exceptions[0]
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, Finding)
    assert finding in str(first)
    assert first.__notes__


def test_the_command_counts_the_sequences() -> None:
    played = CliRunner().invoke(main, ["--logins", "--seconds", "0.3"])
    assert played.exit_code == 0
    assert played.output.endswith(" sequences; no finding\n")
