"""The failures of a fetcher's partitions: which of them are logged, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import LACKS_CLUSTER_ACTION
from pykbroker.replica.following.fetch_failures import AHEAD, LASTS_S, QUIET_FAILURES, FetchFailures
from wire.error_codes import ErrorCode

CORRUPT, UNKNOWN = ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_ID


class Named(SimpleNamespace):
    """A followed partition, of which only the key matters."""

    def __str__(self) -> str:
        return f"t-{self.key[1]}"


def followed(index: int = 0) -> Any:
    return Named(key=(b"topic", index))


def logged(failures: FetchFailures, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Log what is due, and return the new lines."""
    caplog.clear()
    failures.log()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("code", sorted(AHEAD))
def test_an_error_of_a_leader_behind_is_logged_once_after_it_has_lasted(
    caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    failures, one = FetchFailures(7), followed()
    for number, now_s in enumerate((100.0, 101.0, 105.0, 100.0 + LASTS_S - 0.01)):
        assert failures.note(one, code, now_s) == number
    assert logged(failures, caplog) == []
    failures.note(one, ApiError(code), 100.0 + LASTS_S)
    (line,) = logged(failures, caplog)
    assert line.startswith("t-0: cannot fetch from its leader 7: ")
    failures.note(one, code, 100.0 + 2 * LASTS_S)
    assert logged(failures, caplog) == []


def test_another_error_is_logged_at_the_fourth_failure_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    failures, one = FetchFailures(7), followed()
    for _ in range(QUIET_FAILURES):
        failures.note(one, CORRUPT, 100.0)
    assert logged(failures, caplog) == []
    failures.note(one, CORRUPT, 100.0)
    assert logged(failures, caplog) == ["t-0: cannot fetch from its leader 7: CORRUPT_MESSAGE; retrying"]
    failures.note(one, CORRUPT, 100.0)
    assert logged(failures, caplog) == []


def test_a_leader_that_takes_a_broker_for_a_client_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    failures, one = FetchFailures(7), followed()
    for _ in range(QUIET_FAILURES + 1):
        failures.note(one, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 100.0)
    assert logged(failures, caplog) == [f"t-0: cannot fetch from its leader 7: {LACKS_CLUSTER_ACTION}; retrying"]


def test_partitions_that_are_due_together_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    failures = FetchFailures(7)
    for now_s in (0.0, LASTS_S):
        for index in range(300):
            failures.note(followed(index), UNKNOWN, now_s)
    assert logged(failures, caplog) == [
        "t-0: cannot fetch from its leader 7, and 299 more partitions: UNKNOWN_TOPIC_ID; retrying"
    ]


def test_a_partition_that_was_fetched_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    failures, one = FetchFailures(7), followed()
    failures.note(one, UNKNOWN, 0.0)
    failures.forget(one.key)
    assert failures.note(one, UNKNOWN, LASTS_S) == 0
    assert logged(failures, caplog) == []
