"""AlterConfigs and IncrementalAlterConfigs over the wire: authorization, results, and immediate effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from pykbroker.apis.configs.alter_configs import AlterConfigs
from pykbroker.apis.configs.incremental_alter_configs import IncrementalAlterConfigs
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.operation import Operation
from pykbroker.quorum.own_configs import OwnConfigs
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.log_levels import TRACE
from pykbroker.world.config_sources import SystemConfigSources
from tests.unit.apis.calling import Denies, context, gone_through, work_of
from tests.unit.apis.conftest import Client, LocalBroker, batch, serving, serving_with, settings
from wire.error_codes import ErrorCode
from wire.messages import alter_configs as whole
from wire.messages import incremental_alter_configs as incremental
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOBODY = Denies(Operation.ALTER_CONFIGS)
SET, DELETE = 0, 1
Resource = tuple[int, str, dict[str, str | None]]


def changing(*resources: Resource, validate_only: bool = False) -> incremental.IncrementalAlterConfigsRequest:
    """Return a request; the value None unsets a config."""
    return incremental.IncrementalAlterConfigsRequest(
        validate_only=validate_only,
        resources=[
            incremental.AlterConfigsResource(
                kind,
                name,
                [
                    incremental.AlterableConfig(config, DELETE if value is None else SET, value)
                    for config, value in configs.items()
                ],
            )
            for kind, name, configs in resources
        ],
    )


def replacing(*resources: Resource, validate_only: bool = False) -> whole.AlterConfigsRequest:
    return whole.AlterConfigsRequest(
        validate_only=validate_only,
        resources=[
            whole.AlterConfigsResource(
                kind, name, [whole.AlterableConfig(config, value) for config, value in configs.items()]
            )
            for kind, name, configs in resources
        ],
    )


Request = Callable[..., Any]
EVERY_VERSION = [(changing, 0), (changing, 1), (replacing, 0), (replacing, 1), (replacing, 2)]


async def alter(
    client: Client, *resources: Resource, request: Request = changing, version: int = 1, **fields: bool
) -> list[ErrorCode]:
    response = await client.call(request(*resources, **fields), version)
    assert [(one.resource_type, one.resource_name) for one in response.responses] == [one[:2] for one in resources]
    return [ErrorCode(one.error_code) for one in response.responses]


async def described_value(client: Client, kind: int, name: str, config: str) -> str | None:
    response = await client.call(DescribeConfigsRequest([DescribeConfigsResource(kind, name, [config])]), 4)
    value: str | None = response.results[0].configs[0].value
    return value


@pytest.mark.parametrize(("request_of", "version"), EVERY_VERSION)
async def test_every_version_changes_every_kind_of_resource(client: Client, request_of: Request, version: int) -> None:
    wanted: list[Resource] = [
        (TOPIC, "a", {"retention.ms": "5000"}),
        (BROKER, "1", {"log.segment.bytes": "2000000"}),
        (BROKER, "", {"log.roll.ms": "6000", "min.insync.replicas": "1"}),
        (GROUP, "g", {"share.isolation.level": "read_committed"}),
        (CLIENT_METRICS, "m", {"interval.ms": "1000"}),
    ]
    assert await alter(client, *wanted, request=request_of, version=version, validate_only=True) == [ErrorCode.NONE] * 5
    assert await described_value(client, TOPIC, "a", "retention.ms") == "604800000"
    assert await alter(client, *wanted, request=request_of, version=version) == [ErrorCode.NONE] * 5
    for kind, name, configs in wanted:
        for config, value in configs.items():
            assert await described_value(client, kind, name, config) == value
    assert await described_value(client, TOPIC, "a", "segment.bytes") == "2000000"
    assert await described_value(client, TOPIC, "a", "segment.ms") == "6000"


@pytest.mark.parametrize(("request_of", "version"), EVERY_VERSION)
async def test_results_are_in_the_order_of_the_requested_resources(
    client: Client, request_of: Request, version: int
) -> None:
    assert await alter(
        client,
        (TOPIC, "nope", {"retention.ms": "1"}),
        (TOPIC, "a", {"retention.ms": "77"}),
        (BROKER, "2", {}),
        (TOPIC, "b", {"retention.ms": "x"}),
        (99, "a", {}),
        (TOPIC, "b", {"retention.ms": "1"}),
        request=request_of,
        version=version,
    ) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert await described_value(client, TOPIC, "a", "retention.ms") == "77"


@pytest.mark.parametrize(
    ("kind", "name", "config"),
    [(TOPIC, "a", "max.message.bytes"), (BROKER, "1", "message.max.bytes"), (BROKER, "", "message.max.bytes")],
)
async def test_a_new_max_message_bytes_applies_to_the_next_produce(
    client: Client, kind: int, name: str, config: str
) -> None:
    records = batch(b"x" * 500)
    assert (await client.produce("a", records)).error_code == 0
    assert await alter(client, (kind, name, {config: "100"})) == [ErrorCode.NONE]
    assert (await client.produce("a", records)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await alter(client, (kind, name, {config: None})) == [ErrorCode.NONE]
    assert (await client.produce("a", records)).error_code == 0


async def test_altering_one_topic_does_not_change_other_topics(client: Client) -> None:
    await client.create("b")
    await alter(client, (TOPIC, "a", {"max.message.bytes": "100"}))
    assert (await client.produce("a", batch(b"x" * 500))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await client.produce("b", batch(b"x" * 500))).error_code == 0


async def test_the_next_request_on_the_connection_sees_the_new_config(client: Client) -> None:
    await client.send(changing((TOPIC, "a", {"retention.ms": "5000"})), 1)
    await client.send(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "a", ["retention.ms"])]), 4)
    assert (await client.receive()).responses[0].error_code == 0
    assert (await client.receive()).results[0].configs[0].value == "5000"


async def test_altered_configs_survive_a_restart(tmp_path: Path) -> None:
    for value in (None, "5000"):
        async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
            client = await local_broker.connect()
            if value is None:
                await alter(client, (TOPIC, "a", {"retention.ms": "5000"}), (BROKER, "1", {"message.max.bytes": "100"}))
            assert await described_value(client, TOPIC, "a", "retention.ms") == "5000"
            assert (await client.produce("a", batch(b"x" * 500))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_variable_has_its_value_at_once_and_after_a_restart(tmp_path: Path) -> None:
    secrets, kind = tmp_path / "secrets", "org.apache.kafka.common.config.provider.FileConfigProvider"
    secrets.write_text("size=2000000")
    provider: dict[str, str | None] = {"config.providers": "file", "config.providers.file.class": kind}
    variable = {**provider, "log.segment.bytes": f"${{file:{secrets}:size}}"}
    chosen = settings(tmp_path / "data", topics=(("a", 1),))
    static = BrokerConfig.from_mapping(chosen.config.static, SystemConfigSources())
    for name in ("1", ""):
        async with serving_with(replace(chosen, config=static)) as local_broker:
            client = await local_broker.connect()
            assert await alter(client, (BROKER, name, variable)) == [ErrorCode.NONE]
            for resource in ((BROKER, name, "log.segment.bytes"), (TOPIC, "a", "segment.bytes")):
                assert await described_value(client, *resource) == "2000000"
            wrong = (BROKER, name, {**provider, "log.segment.bytes": "${file:/nowhere:size}"})
            assert await alter(client, wrong) == [ErrorCode.INVALID_REQUEST]
    secrets.write_text("size=3000000")
    async with serving_with(replace(chosen, config=static)) as local_broker:
        assert await described_value(await local_broker.connect(), TOPIC, "a", "segment.bytes") == "3000000"


class Answers:
    """A controller that accepts every change."""

    async def ask(self, request: Any) -> Any:
        return whole.AlterConfigsResponse(
            responses=[
                whole.AlterConfigsResourceResponse(0, None, one.resource_type, one.resource_name)
                for one in request.resources
            ]
        )


async def here(function: Callable[..., Any], *args: object) -> Any:
    """Return the result of a function, at once."""
    return function(*args)


CONTROLLER = ControllerRequests(Answers())
OWN = OwnConfigs(1, LiveConfig(BrokerConfig.from_mapping({})), MetadataImage, here)
HANDLERS = [(AlterConfigs(CONTROLLER, OWN), replacing), (IncrementalAlterConfigs(1, CONTROLLER, OWN), changing)]


class OfFiles(OwnConfigs, frozen=True):
    """The configs of a broker that reads the files which they name, and may tell what is in them."""

    async def check(self, resource: Any) -> None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the file has no certificate")


class Forwards(ControllerRequests, frozen=True):
    """The requests to a controller in another process that accepts every change."""

    are_authorized = True


FORWARDS = Forwards(Answers())
READER = OfFiles(1, OWN.live, MetadataImage, here)


@pytest.mark.parametrize(
    ("handler", "request_of"),
    [(AlterConfigs(FORWARDS, READER), replacing), (IncrementalAlterConfigs(1, FORWARDS, READER), changing)],
)
def test_no_file_is_read_for_a_client_that_may_not_alter_configs_of_the_broker(
    handler: Any, request_of: Request
) -> None:
    held = handler(context(1, NOBODY), request_of((BROKER, "1", {"listener.name.ssl.ssl.keystore.location": "/f"})))

    async def answer() -> Any:
        return gone_through(await work_of(held))

    (result,) = trio.run(answer).responses
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("handler", "request_of"), HANDLERS)
def test_each_resource_is_authorized_separately(handler: Any, request_of: Request) -> None:
    names: list[Resource] = [
        (TOPIC, "a", {}),
        (BROKER, "", {}),
        (CLIENT_METRICS, "m", {}),
        (GROUP, "g", {}),
        (BROKER_LOGGER, "1", {}),
        (99, "x", {}),
    ]
    held = handler(context(1, NOBODY), request_of(*names))

    async def answer() -> Any:
        return gone_through(await work_of(held))

    response = trio.run(answer)
    of_cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    assert [(one.error_code, one.error_message) for one in response.responses] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        of_cluster,
        of_cluster,
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
        (0 if request_of is replacing else of_cluster[0], None),  # AlterConfigs: the controller refuses the type
        (0, None),
    ]


class Away:
    """A controller that does not answer."""

    async def ask(self, request: Any) -> Any:
        raise ApiError(ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize(
    ("handler_of", "request_of"), [(AlterConfigs, replacing), (partial(IncrementalAlterConfigs, 1), changing)]
)
def test_every_resource_is_refused_if_the_controller_is_away(handler_of: Any, request_of: Request) -> None:
    request = request_of((BROKER, "2", {}), (GROUP, "g", {}))
    later = handler_of(ControllerRequests(Away()), OWN)(context(1), request)
    with pytest.raises(ApiError):
        trio.run(lambda: later.work)
    assert len(request.resources) == 2, "the response has a result for each"


@pytest.mark.parametrize(
    ("handler_of", "request_of"), [(AlterConfigs, replacing), (partial(IncrementalAlterConfigs, 1), changing)]
)
def test_configs_of_another_broker_are_accepted_on_listeners_of_controllers_only(
    handler_of: Any, request_of: Request
) -> None:
    refusal = ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"
    for own, expected in ((OWN, refusal), (None, (ErrorCode.NONE, None))):
        held = handler_of(CONTROLLER, own)(
            context(1), request_of((BROKER, "1", {}), (BROKER, "2", {}), (BROKER, "", {}))
        )

        async def answer(held: Any = held) -> Any:
            return gone_through(await work_of(held))

        response = trio.run(answer)
        assert [(one.error_code, one.error_message) for one in response.responses] == [
            (ErrorCode.NONE, None),
            expected,
            (ErrorCode.NONE, None),
        ]


@pytest.mark.parametrize("name", ["1", ""])
async def test_a_new_connection_limit_applies_to_the_next_connection(local_broker: LocalBroker, name: str) -> None:
    client = await local_broker.connect()
    assert await alter(client, (BROKER, name, {"max.connections.per.ip": "1"})) == [ErrorCode.NONE]
    assert await (await local_broker.connect()).closed()
    assert await alter(client, (BROKER, name, {"max.connections.per.ip": None})) == [ErrorCode.NONE]
    assert await alter(await local_broker.connect(), (TOPIC, "a", {})) == [ErrorCode.NONE]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    one = logging.getLogger("pykbroker.test_alter_configs")
    yield one
    one.setLevel(logging.NOTSET)


async def test_the_level_of_a_logger_is_set_and_unset(client: Client, logger: logging.Logger) -> None:
    for level, python in (("TRACE", 5), ("WARN", logging.WARNING), ("FATAL", logging.CRITICAL)):
        assert await alter(client, (BROKER_LOGGER, "1", {logger.name: level})) == [ErrorCode.NONE]
        assert (logger.level, await described_value(client, BROKER_LOGGER, "1", logger.name)) == (python, level)
    assert await alter(client, (BROKER_LOGGER, "1", {logger.name: "INFO"}), validate_only=True) == [ErrorCode.NONE]
    assert logger.level == logging.CRITICAL
    assert await alter(client, (BROKER_LOGGER, "1", {logger.name: None})) == [ErrorCode.NONE]
    assert logger.level == logging.NOTSET


def test_the_level_of_a_logger_is_set_while_the_controller_is_away(logger: logging.Logger) -> None:
    request = changing((BROKER_LOGGER, "1", {logger.name: "DEBUG"}), (BROKER, "2", {}))
    later = IncrementalAlterConfigs(1, ControllerRequests(Away()), OWN)(context(1), request)

    async def answer() -> Any:
        return gone_through(await work_of(later))

    codes = [one.error_code for one in trio.run(answer).responses]
    assert (codes, logger.level) == ([ErrorCode.NONE, ErrorCode.INVALID_REQUEST], logging.DEBUG)


async def test_a_package_without_a_logger_of_its_own_has_a_level_for_all_of_its_loggers(client: Client) -> None:
    package = "pykbroker.test_alter_configs_package"
    module = logging.getLogger(f"{package}.module")
    before = await described_value(client, BROKER_LOGGER, "1", package)
    assert before == await described_value(client, BROKER_LOGGER, "1", "root")
    assert await alter(client, (BROKER_LOGGER, "1", {package: "TRACE"})) == [ErrorCode.NONE]
    assert module.getEffectiveLevel() == TRACE
    assert await alter(client, (BROKER_LOGGER, "1", {package: None})) == [ErrorCode.NONE]
    assert await described_value(client, BROKER_LOGGER, "1", package) == before


@pytest.mark.parametrize(
    ("node", "name", "operation", "level", "code", "message"),
    [
        ("1", "no.such", SET, "INFO", ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (
            "1",
            "root",
            DELETE,
            None,
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            "1",
            "root",
            2,
            "INFO",
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "1",
            "root",
            3,
            "INFO",
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        ("1", "root", 9, "INFO", ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        ("1", "root", SET, None, ErrorCode.INVALID_REQUEST, "Null value not supported for : root"),
        ("7", "root", SET, "INFO", ErrorCode.INVALID_REQUEST, "Unexpected node id. Expected 1, but received 7"),
        ("x", "root", SET, "INFO", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (
            "1",
            "root",
            SET,
            "LOUD",
            ErrorCode.INVALID_CONFIG,
            "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are "
            "TRACE, DEBUG, INFO, WARN, ERROR, FATAL",
        ),
    ],
)
async def test_an_invalid_level_changes_no_logger(
    client: Client,
    logger: logging.Logger,
    node: str,
    name: str,
    operation: int,
    level: str | None,
    code: ErrorCode,
    message: str,
) -> None:
    response = await client.call(
        incremental.IncrementalAlterConfigsRequest(
            [
                incremental.AlterConfigsResource(
                    BROKER_LOGGER,
                    node,
                    [
                        incremental.AlterableConfig(logger.name, SET, "DEBUG"),
                        incremental.AlterableConfig(name, operation, level),
                    ],
                )
            ]
        ),
        1,
    )
    assert [(one.error_code, one.error_message) for one in response.responses] == [(code, message)]
    assert logger.level == logging.NOTSET


def test_a_repeated_resource_is_refused_to_all_clients_alike() -> None:
    later = IncrementalAlterConfigs(1, CONTROLLER, OWN)(context(1, NOBODY), changing(*[(TOPIC, "a", {})] * 2))

    async def answer() -> Any:
        return gone_through(await work_of(later))

    assert [one.error_code for one in trio.run(answer).responses] == [ErrorCode.INVALID_REQUEST] * 2


async def test_a_repeated_broker_logger_resource_is_refused(client: Client, logger: logging.Logger) -> None:
    changes: dict[str, str | None] = {logger.name: "DEBUG"}
    assert (
        await alter(client, (BROKER_LOGGER, "1", changes), (BROKER_LOGGER, "1", changes))
        == [ErrorCode.INVALID_REQUEST] * 2
    )
    assert logger.level == logging.NOTSET
