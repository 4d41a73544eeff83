"""Listeners that are added to a running broker and removed from it, as IncrementalAlterConfigs allows (KIP-226)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from pykbroker.broker import metadata
from pykbroker.broker.parts import Parts
from pykbroker.core.address import Address
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.server.limits import Limits
from tests.unit.apis.conftest import FREE_PORT, Client, LocalBroker, fetch_request, serving
from wire.error_codes import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

HOST, OWN = "127.0.0.1", "PLAINTEXT://127.0.0.1:0"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{}="secret";'
STATIC = {
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT",
    "advertised_listeners": "PLAINTEXT://localhost:1",  # of the other listeners none is advertised, so that they may go
}


async def altered(client: Client, configs: dict[str, str | None]) -> Any:
    """Set configs of the broker, or unset those that are None."""
    changes = [AlterableConfig(name, int(value is None), value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ConfigResource.BROKER, "1", changes)])
    return (await client.call(request, 1)).responses[0]


async def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    (listening,) = await trio.open_tcp_listeners(0, host=HOST)
    port: int = listening.socket.getsockname()[1]
    await listening.aclose()
    return port


async def connected(local_broker: LocalBroker, port: int) -> Client:
    """Connect to a port of the broker as soon as it is open."""
    while True:
        try:
            return await local_broker.connect_to(Address(HOST, port))
        except OSError:
            await trio.sleep(0.001)


async def test_a_listener_is_added_with_its_limits_and_removed_with_its_connections(tmp_path: Path) -> None:
    port = await free_port()
    async with serving(tmp_path, topics=[("a", 1)], **STATIC) as local_broker:
        client = await local_broker.connect()
        added = {"listeners": f"{OWN},EXT://{HOST}:{port}", "listener.name.ext.max.connections": "2"}
        assert (await altered(client, {**added})).error_code == 0
        idle, fetching = await connected(local_broker, port), await connected(local_broker, port)
        (broker,) = (await idle.call(MetadataRequest(topics=[]), 12)).brokers
        assert (broker.host, broker.port) == (HOST, port)
        as_broker = fetch_request("a", 0)
        as_broker.replica_id = 7
        for asking, is_refused in ((client, False), (idle, True)):  # brokers come by the listener of the start
            code = (await asking.call(as_broker, 12)).responses[0].partitions[0].error_code
            assert (code == ErrorCode.TOPIC_AUTHORIZATION_FAILED) is is_refused
        await fetching.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        waiting = await local_broker.connect_to(Address(HOST, port))
        await waiting.send(MetadataRequest(topics=[]), 12)

        assert (await altered(client, {"listeners": None})).error_code == 0
        assert await idle.closed()
        assert await fetching.closed()
        with pytest.raises(trio.BrokenResourceError):  # it was never accepted
            await waiting.receive()
        with pytest.raises(OSError, match="refused|connect"):
            await local_broker.connect_to(Address(HOST, port))
        await client.call(MetadataRequest(topics=[]), 12)

        assert (await altered(client, {**added})).error_code == 0
        again = [await connected(local_broker, port) for _ in range(2)]
        for each in again:
            await each.call(MetadataRequest(topics=[]), 12)


async def test_a_listener_whose_port_is_in_use_stays_closed_and_leaves_the_others_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (busy,) = await trio.open_tcp_listeners(0, host=HOST)
    taken, port = busy.socket.getsockname()[1], await free_port()
    async with busy, serving(tmp_path, **STATIC) as local_broker:
        client = await local_broker.connect()
        known = f"{STATIC['listener_security_protocol_map']},NEW:PLAINTEXT"
        wanted = {
            "listeners": f"{OWN},EXT://{HOST}:{taken},NEW://{HOST}:{port}",
            "listener.security.protocol.map": known,
        }
        assert (await altered(client, {**wanted})).error_code == 0
        await (await connected(local_broker, port)).call(MetadataRequest(topics=[]), 12)
        assert f"listener EXT: it cannot be opened on {HOST}:{taken}: " in caplog.text
        other = await free_port()
        wanted["listeners"] = f"{OWN},EXT://{HOST}:{other},NEW://{HOST}:{taken}"
        assert (await altered(client, {**wanted})).error_code == 0
        await (await connected(local_broker, other)).call(MetadataRequest(topics=[]), 12)
        await (await connected(local_broker, port)).call(MetadataRequest(topics=[]), 12)
        assert f"listener NEW: it is open and stays on {HOST}:{port}, not on {HOST}:{taken}" in caplog.text


async def test_a_broker_starts_with_the_listeners_that_were_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port = await free_port()
    for start in range(3):
        async with serving(tmp_path, **STATIC) as local_broker:
            assert set(local_broker.serving.listeners) == ({"PLAINTEXT", "EXT"} if start == 1 else {"PLAINTEXT"})
            client = await local_broker.connect()
            if start == 1:
                (broker,) = (await (await connected(local_broker, port)).call(MetadataRequest(topics=[]), 12)).brokers
                assert (broker.host, broker.port) == (HOST, port)
            wanted = {0: f"{OWN},EXT://{HOST}:{port}", 1: None}
            if start in wanted:
                assert (await altered(client, {"listeners": wanted[start]})).error_code == 0


async def test_a_listener_that_is_added_while_a_broker_starts_is_open_when_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker applies the change between the first look at the listeners and the beginning of service."""
    added = AlterableConfig("listeners", 0, f"{OWN},EXT://{HOST}:{await free_port()}")
    asked = 0

    async def limits_under(parts: Parts, image: MetadataImage) -> Limits:
        nonlocal asked
        asked += 1
        limits = await metadata.limits_under(parts, image)
        if asked == 1:
            resource = AlterConfigsResource(ConfigResource.BROKER, "1", [added])
            await parts.controller.ask(IncrementalAlterConfigsRequest([resource]))
        return limits

    monkeypatch.setattr("pykbroker.broker.lifecycle.limits_under", limits_under)
    async with serving(tmp_path, **STATIC) as local_broker:
        assert set(local_broker.serving.listeners) == {"PLAINTEXT", "EXT"}
        client = await local_broker.connect_to(local_broker.serving.listeners["EXT"])
        assert (await client.call(MetadataRequest(topics=[]), 12)).brokers


async def test_a_listener_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, **STATIC) as local_broker:
        client = await local_broker.connect()
        result = await altered(client, {"listeners": f"{OWN},NOPE://{HOST}:1"})
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message.endswith("No security protocol defined for listener NOPE")
        (broker,) = (await client.call(MetadataRequest(topics=[]), 12)).brokers
        assert broker.node_id == 1


async def test_an_added_listener_has_the_log_in_of_its_configs_also_after_a_restart(tmp_path: Path) -> None:
    port, own = await free_port(), "listener.name.ext."
    added = {
        "listeners": f"{OWN},EXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:SASL_PLAINTEXT",
        f"{own}sasl.enabled.mechanisms": "PLAIN",
        f"{own}plain.sasl.jaas.config": PLAIN.format("alice"),
    }
    for start in range(2):
        async with serving(tmp_path, **STATIC) as local_broker:
            client = await local_broker.connect()
            if not start:
                without = {name: value for name, value in added.items() if not name.endswith("jaas.config")}
                refused = await altered(client, {**without})
                assert refused.error_code == ErrorCode.INVALID_REQUEST
                assert f"{own}plain.sasl.jaas.config is missing" in refused.error_message
                assert (await altered(client, {**added})).error_code == 0
            stranger = await connected(local_broker, port)
            await stranger.send(MetadataRequest(topics=[]), 12)
            assert await stranger.closed()
            if not start:  # as in Kafka, an open listener keeps its users
                changed = {f"{own}plain.sasl.jaas.config": PLAIN.format("zoe")}
                assert (await altered(client, {**changed})).error_code == 0
            for user, code in ((b"alice", 58 * start), (b"zoe", 58 * (1 - start))):
                one = await connected(local_broker, port)
                shaken = await one.call(SaslHandshakeRequest("PLAIN"), 1)
                assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN"])
                token = b"\0" + user + b"\0secret"
                assert (await one.call(SaslAuthenticateRequest(token), 1)).error_code == code
                if not code:
                    logged_in = one
            await logged_in.call(MetadataRequest(topics=[]), 12)
            if start:  # its own configs do not keep the listener from being removed
                assert (await altered(client, {"listeners": None})).error_code == 0
                assert await logged_in.closed()


@pytest.mark.parametrize(
    "changed",
    [
        {"listener.name.plaintext.plain.sasl.jaas.config": "rubbish"},
        {"listener.name.plaintext.plain.sasl.jaas.config": PLAIN.format("zoe")},
        {"listener.name.plaintext.sasl.enabled.mechanisms": "GSSAPI"},
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
    ],
)
async def test_a_listener_of_the_start_keeps_its_log_in_as_in_kafka_also_after_a_restart(
    tmp_path: Path, changed: dict[str, str | None]
) -> None:
    protocol = SecurityProtocol.SASL_PLAINTEXT
    static: dict[str, str] = {
        "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": PLAIN.format("alice"),
    }
    for start in range(2):
        async with serving(tmp_path, listeners=(replace(FREE_PORT, protocol=protocol),), **static) as local_broker:
            client = await local_broker.connect()
            assert (await client.call(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
            assert (await client.call(SaslAuthenticateRequest(b"\0alice\0secret"), 1)).error_code == 0
            if not start:
                assert (await altered(client, changed)).error_code == 0
