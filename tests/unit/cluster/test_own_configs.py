"""The dynamic configs of a broker that is no controller, which it checks before the controller stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from tests.unit.apis.conftest import Client
from tests.unit.cluster.nodes import HOST, cluster
from wire.error_codes import ErrorCode
from wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from wire.messages.incremental_alter_configs import AlterableConfig as ChangedConfig
from wire.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

BROKER = 4


async def altered(client: Client, configs: dict[str, str], name: str = "2") -> tuple[int, str | None]:
    """Change configs, after the same in the older API, which must have the same result, was tried."""
    changed = [ChangedConfig(key, 0, value) for key, value in configs.items()]
    replaced = [AlterableConfig(key, value) for key, value in configs.items()]
    requests: list[tuple[Any, int]] = [
        (AlterConfigsRequest([AlterConfigsResource(BROKER, name, replaced)], validate_only=True), 2),
        (IncrementalAlterConfigsRequest([ChangedResource(BROKER, name, changed)]), 1),
    ]
    results = [(await client.call(*request)).responses[0] for request in requests]
    older, newer = ((result.error_code, result.error_message) for result in results)
    assert older == newer
    return newer


async def test_a_broker_refuses_configs_that_it_cannot_have(tmp_path: Path) -> None:
    (free,) = await trio.open_tcp_listeners(0, host=HOST)
    own, port = f"PLAINTEXT://{HOST}:0", free.socket.getsockname()[1]
    await free.aclose()
    async with cluster(tmp_path, 1, 2) as running:
        client = running.clients[2]
        code, message = await altered(client, {"listeners": f"{own},EXT://{HOST}:{port}"})
        assert code == ErrorCode.INVALID_REQUEST
        assert (message or "").endswith("No security protocol defined for listener EXT")
        code, message = await altered(client, {"num.network.threads": "100"})
        assert code == ErrorCode.INVALID_REQUEST
        assert (message or "").endswith("value should not be greater than double the current value 3")
        assert await altered(client, {"listeners": own}, name="1") == (
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 2, but received 1",
        )
        known = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT"}
        assert await altered(client, {"listeners": f"{own},EXT://{HOST}:{port}", **known}) == (0, None)
