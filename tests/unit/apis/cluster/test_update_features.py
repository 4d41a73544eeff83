"""UpdateFeatures and UnregisterBroker over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.apis.conftest import Client, batch, serving
from wire.error_codes import ErrorCode
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

DOWN = 2


async def levels(client: Client) -> dict[str, int]:
    response = await client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {feature.name: feature.max_version_level for feature in response.finalized_features}


async def update(client: Client, version: int, *updates: FeatureUpdateKey, **fields: Any) -> Any:
    return await client.call(UpdateFeaturesRequest(feature_updates=list(updates), **fields), version)


@pytest.mark.parametrize("version", [1, 2])
async def test_api_versions_lists_a_changed_feature_level_at_once(client: Client, version: int) -> None:
    assert (await levels(client))["group.version"] == 1
    down = FeatureUpdateKey("group.version", 0, upgrade_type=DOWN)
    assert (await update(client, version, down, validate_only=True)).error_code == 0
    assert "group.version" in await levels(client)
    response = await update(client, version, down)
    assert (response.error_code, response.error_message) == (0, None)
    assert [(one.feature, one.error_code) for one in response.results] == [("group.version", 0)] * (version < 2)
    assert "group.version" not in await levels(client)
    assert (await update(client, version, FeatureUpdateKey("group.version", 1))).error_code == 0
    assert (await levels(client))["group.version"] == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_the_request_timeout_is_ignored(client: Client, timeout_ms: int) -> None:
    down = FeatureUpdateKey("group.version", 0, upgrade_type=DOWN)
    assert (await update(client, 1, down, timeout_ms=timeout_ms)).error_code == 0
    assert "group.version" not in await levels(client)


async def test_version_0_refuses_a_downgrade_even_with_allow_downgrade(client: Client) -> None:
    response = await update(client, 0, FeatureUpdateKey("transaction.version", 2))
    assert (response.error_code, [one.feature for one in response.results]) == (0, ["transaction.version"])
    response = await update(client, 0, FeatureUpdateKey("transaction.version", 0, allow_downgrade=True))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (await levels(client))["transaction.version"] == 2


@pytest.mark.parametrize("version", range(3))
async def test_one_invalid_update_fails_the_whole_request(client: Client, version: int) -> None:
    before = await levels(client)
    response = await update(client, version, FeatureUpdateKey("transaction.version", 2), FeatureUpdateKey("no.such", 1))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update version 1 for "
        "feature no.such. Local controller 1 does not support this feature."
    )
    assert (response.results, await levels(client)) == ([], before)


async def test_an_unregistered_broker_cannot_be_unregistered(client: Client) -> None:
    response = await client.call(UnregisterBrokerRequest(7), 0)
    assert (response.error_code, response.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 7 is not currently registered",
    )


async def test_a_broker_that_unregisters_itself_loses_its_leaderships_until_it_restarts(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        assert (await client.produce("a", batch(b"x"))).error_code == 0
        response = await client.call(UnregisterBrokerRequest(1), 0)
        assert (response.error_code, response.error_message) == (0, None)
        assert (await client.produce("a", batch(b"y"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        answer = await client.produce("a", batch(b"z"))
        assert (answer.error_code, answer.base_offset) == (0, 1)
