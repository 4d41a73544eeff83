"""GetTelemetrySubscriptions and PushTelemetry without a metrics receiver, with the responses of Kafka 4.3.1."""

from __future__ import annotations

import gzip
import os

import pytest

from tests.unit.apis.conftest import Client
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.push_telemetry import PushTelemetryRequest

BYTES_MAX = 1_048_576
RESERVED = bytes(15) + b"\x01"


async def get(client: Client, instance_id: bytes) -> GetTelemetrySubscriptionsResponse:
    response = await client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)
    assert isinstance(response, GetTelemetrySubscriptionsResponse)
    return response


async def push(
    client: Client,
    instance_id: bytes,
    subscription_id: int,
    metrics: bytes = b"",
    codec: int = 0,
    terminating: bool = False,
) -> ErrorCode:
    request = PushTelemetryRequest(instance_id, subscription_id, terminating, codec, metrics)
    return ErrorCode((await client.call(request, 0)).error_code)


async def test_the_telemetry_apis_are_answered_and_not_advertised(client: Client):
    versions = await client.call(ApiVersionsRequest(), 0)
    assert {71, 72}.isdisjoint(one.api_key for one in versions.api_keys)
    first, second = [await get(client, NIL) for _ in range(2)]
    assert first.client_instance_id not in (NIL, RESERVED, second.client_instance_id)
    assert first == GetTelemetrySubscriptionsResponse(
        client_instance_id=first.client_instance_id,
        subscription_id=first.subscription_id,
        accepted_compression_types=[4, 3, 1, 2],
        push_interval_ms=300_000,
        telemetry_max_bytes=BYTES_MAX,
        delta_temporality=True,
        requested_metrics=[],
    )


async def test_a_client_that_requests_or_pushes_metrics_too_early_is_throttled(client: Client):
    who = os.urandom(16)
    subscriptions = await get(client, who)
    assert subscriptions.client_instance_id == who
    early = GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert await get(client, who) == early
    assert await push(client, who, subscriptions.subscription_id, b"xx") == 0
    assert await push(client, who, subscriptions.subscription_id, b"xx") == ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize("reserved", [NIL, RESERVED])
async def test_a_push_with_a_reserved_client_instance_id_is_refused(client: Client, reserved: bytes):
    assert await push(client, reserved, 0) == ErrorCode.INVALID_REQUEST
    assert (await get(client, RESERVED)).error_code == 0


@pytest.mark.parametrize(
    ("wrong", "codec", "metrics", "code"),
    [
        (0, 0, b"", ErrorCode.NONE),
        (0, 0, b"no metrics at all", ErrorCode.NONE),
        (0, 0, bytes(BYTES_MAX), ErrorCode.NONE),
        (0, 0, bytes(BYTES_MAX + 1), ErrorCode.TELEMETRY_TOO_LARGE),
        (0, 1, gzip.compress(bytes(BYTES_MAX)), ErrorCode.NONE),
        (0, 1, gzip.compress(bytes(BYTES_MAX + 1)), ErrorCode.INVALID_RECORD),
        (0, 1, b"x", ErrorCode.INVALID_RECORD),
        (0, 4, b"xx", ErrorCode.INVALID_RECORD),
        (0, 4, b"", ErrorCode.NONE),
        (0, 5, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0, -1, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (0, 9, bytes(BYTES_MAX + 1), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (1, 9, bytes(BYTES_MAX + 1), ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ],
)
async def test_a_push_is_validated_as_by_kafka(client: Client, wrong: int, codec: int, metrics: bytes, code: ErrorCode):
    who = os.urandom(16)
    subscriptions = await get(client, who)
    assert await push(client, who, subscriptions.subscription_id + wrong, metrics, codec) == code
    asks_anew = code in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert (await get(client, who)).error_code == (0 if asks_anew else ErrorCode.THROTTLING_QUOTA_EXCEEDED)


async def test_a_push_after_the_terminating_push_is_refused(client: Client):
    who = os.urandom(16)
    subscriptions = await get(client, who)
    assert await push(client, who, subscriptions.subscription_id, terminating=True) == 0
    assert await push(client, who, subscriptions.subscription_id, terminating=True) == ErrorCode.INVALID_REQUEST


async def test_a_client_gets_the_subscriptions_that_match_it(client: Client):
    response = await client.call(
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    16,
                    "one",
                    [
                        AlterableConfig(name, 0, value)
                        for name, value in (("metrics", "a.,b."), ("interval.ms", "5000"), ("match", "client_id=te.t"))
                    ],
                )
            ]
        ),
        1,
    )
    assert response.responses[0].error_code == 0
    subscriptions = await get(client, NIL)
    assert (subscriptions.requested_metrics, subscriptions.push_interval_ms) == (["a.", "b."], 5000)
    other = await client.call(GetTelemetrySubscriptionsRequest(client_instance_id=NIL), 0, client_id="other")
    assert (other.requested_metrics, other.push_interval_ms) == ([], 300_000)
