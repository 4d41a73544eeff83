"""InitProducerId: new producer ids, refused requests, and authorization."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.transactions.init_producer_id import InitProducerId
from pykbroker.core.errors import ApiError
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from pykbroker.core.txn.requests import TransactionAnswer
from tests.unit.apis.calling import Denies, context
from tests.unit.apis.conftest import Client
from wire.error_codes import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
IDEMPOTENT, WRITE = Operation.IDEMPOTENT_WRITE, Operation.WRITE


@pytest.mark.parametrize("version", range(6))
async def test_every_version_returns_a_new_producer_id(client: Client, version: int) -> None:
    given = [await client.call(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert [(one.error_code, one.producer_epoch) for one in given] == [(0, 0)] * 3
    assert len({one.producer_id for one in given}) == 3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "t"}, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_invalid_requests_are_refused(client: Client, fields: dict[str, Any], code: ErrorCode) -> None:
    request = InitProducerIdRequest(**{"transactional_id": None, **fields})
    response: InitProducerIdResponse = await client.call(request, 5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize(
    ("denied", "transactional_id", "code"),
    [
        ((WRITE,), None, 0),
        ((IDEMPOTENT,), "t", ErrorCode.NOT_COORDINATOR),
        ((WRITE,), "t", NO_ID),
        ((WRITE,), "", NO_ID),
    ],
)
def test_only_a_request_with_a_transactional_id_is_authorized_on_that_id(
    denied: tuple[Operation, ...], transactional_id: str | None, code: int
) -> None:
    ids: Any = SimpleNamespace(next_nowait=lambda: 7)
    nobody: Any = SimpleNamespace(ask=lambda request, respond: respond(TransactionAnswer(ErrorCode.NOT_COORDINATOR)))
    handler = InitProducerId(ids, nobody)
    try:
        response: Any = handler(context(5, Denies(*denied)), InitProducerIdRequest(transactional_id=transactional_id))
        answered = response.error_code
    except ApiError as error:
        answered = error.code
    assert answered == code


def test_an_empty_transactional_id_is_authorized_by_its_own_name() -> None:
    asked = []

    class Names(Denies):
        def allows(self, session: Session, operation: Operation, resource: ResourceType, name: str, *_: Any) -> bool:
            asked.append((resource, name))
            return False

    nothing: Any = None
    with pytest.raises(ApiError):
        InitProducerId(nothing, nothing)(context(5, Names()), InitProducerIdRequest(transactional_id=""))
    assert asked == [(ResourceType.TRANSACTIONAL_ID, "")]
