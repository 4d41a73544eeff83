"""AlterClientQuotas and DescribeClientQuotas over the wire, with the responses of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apis.conftest import Client
from wire.error_codes import ErrorCode
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, ANY = 0, 1, 2
RATE = "producer_byte_rate"
ENTITIES: tuple[dict[str, str | None], ...] = (
    {"user": "a"},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
    {"user": "a", "client-id": "c"},
    {"user": "a", "client-id": None},
    {"user": None, "client-id": None},
    {"ip": "127.0.0.1"},
    {"ip": None},
)


def altering(
    *entries: tuple[dict[str, str | None], dict[str, float | None]], validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Return a request; the value None removes a quota."""
    return AlterClientQuotasRequest(
        validate_only=validate_only,
        entries=[
            AlterClientQuotasRequestEntryData(
                [EntityData(*part) for part in entity.items()],
                [OpData(key, value or 0.0, value is None) for key, value in ops.items()],
            )
            for entity, ops in entries
        ],
    )


async def alter(client: Client, *entries: Any, version: int = 1, **fields: bool) -> list[tuple[ErrorCode, str | None]]:
    response = await client.call(altering(*entries, **fields), version)
    return [(ErrorCode(entry.error_code), entry.error_message) for entry in response.entries]


async def describe(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> dict[frozenset[Any], dict[str, float]]:
    response = await client.call(
        DescribeClientQuotasRequest(components=[ComponentData(*component) for component in components], strict=strict),
        version,
    )
    assert (response.error_code, response.error_message) == (0, "")
    return {
        frozenset((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


async def fill(client: Client) -> None:
    every = [
        (entity, {"connection_creation_rate" if "ip" in entity else RATE: index + 1.0})
        for index, entity in enumerate(ENTITIES)
    ]
    assert await alter(client, *every) == [(ErrorCode.NONE, None)] * len(ENTITIES)


@pytest.mark.parametrize(
    ("components", "loose", "strict"),
    [
        ((), range(9), ()),
        ((("user", EXACT, "a"),), (0, 4, 5), (0,)),
        ((("user", DEFAULT, None),), (1, 6), (1,)),
        ((("user", ANY, None),), (0, 1, 4, 5, 6), (0, 1)),
        ((("client-id", EXACT, "c"),), (2, 4), (2,)),
        ((("client-id", DEFAULT, None),), (3, 5, 6), (3,)),
        ((("client-id", ANY, None),), (2, 3, 4, 5, 6), (2, 3)),
        ((("user", EXACT, "a"), ("client-id", ANY, None)), (4, 5), (4, 5)),
        ((("user", DEFAULT, None), ("client-id", DEFAULT, None)), (6,), (6,)),
        ((("ip", ANY, None),), (7, 8), (7, 8)),
        ((("ip", EXACT, "127.0.0.1"),), (7,), (7,)),
        ((("ip", DEFAULT, None),), (8,), (8,)),
        ((("user", EXACT, "nobody"),), (), ()),
        ((("user", EXACT, ""),), (), ()),
    ],
)
async def test_a_filter_returns_the_matching_entities(client: Client, components: Any, loose: Any, strict: Any) -> None:
    await fill(client)
    for is_strict, wanted in ((False, loose), (True, strict)):
        found = await describe(client, *components, strict=is_strict)
        assert set(found) == {frozenset(ENTITIES[index].items()) for index in wanted}


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_of_an_entity_are_one_entry_in_every_version(client: Client, version: int) -> None:
    quotas = {RATE: 5.0, "request_percentage": 0.5}
    assert await alter(client, ({"user": "a"}, quotas), version=version) == [(ErrorCode.NONE, None)]
    only_a = frozenset({("user", "a")})
    assert await describe(client, version=version) == {only_a: quotas}
    await alter(client, ({"user": "a"}, {RATE: None}), version=version)
    assert await describe(client, version=version) == {only_a: {"request_percentage": 0.5}}
    await alter(client, ({"user": "a"}, {"request_percentage": None}), version=version)
    assert await describe(client, version=version) == {}


async def test_validate_only_stores_nothing(client: Client) -> None:
    answers = await alter(client, ({"user": "a"}, {RATE: 1.0}), ({"user": ""}, {RATE: 1.0}), validate_only=True)
    assert answers == [(ErrorCode.NONE, None), (ErrorCode.INVALID_REQUEST, "Empty user not supported")]
    assert await describe(client) == {}


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        (
            (("user", EXACT, None),),
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            (("user", DEFAULT, "a"),),
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            (("user", ANY, "a"),),
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ((("user", 3, None),), ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        ((("user", -1, None),), ErrorCode.INVALID_REQUEST, "Unknown match type -1"),
        ((("", EXACT, "a"),), ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ((("group", EXACT, "a"),), ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            (("user", EXACT, "a"), ("user", EXACT, "b")),
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            (("ip", ANY, None), ("client-id", ANY, None)),
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component.",
        ),
    ],
)
async def test_an_invalid_filter_is_refused(client: Client, components: Any, code: ErrorCode, message: str) -> None:
    response = await client.call(DescribeClientQuotasRequest(components=[ComponentData(*one) for one in components]), 1)
    assert (response.error_code, response.error_message, response.entries) == (code, message, None)
