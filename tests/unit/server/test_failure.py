"""The error responses to requests that failed as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.server.failure import failure
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER, "elsewhere"), ErrorCode.NOT_CONTROLLER, "elsewhere"),
        (ApiError(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER, None),
        (KeyError("a name inside the broker"), ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_a_client_gets_the_message_of_an_error_that_is_meant_for_it(
    error: Exception, code: ErrorCode, message: str | None
) -> None:
    route: Any = SimpleNamespace(key=ApiKey.ELECT_LEADERS, version=2, errors=0)
    response: Any = failure(route, ElectLeadersRequest(topic_partitions=[TopicPartitions("a", [0])]), error)
    (result,) = response.replica_election_results[0].partition_result
    assert (response.error_code, result.error_code, result.error_message, route.errors) == (code, code, message, 1)
