"""Tests of the effective config of a running broker, in which dynamic configs override static ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.config.broker_change import check_broker_change
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.entries import describe_broker
from pykbroker.core.config.live_config import Dynamic, LiveConfig
from pykbroker.core.config.providers import PROVIDERS
from pykbroker.core.errors import ApiError
from pykbroker.world.config_sources import SystemConfigSources
from wire.error_codes import ErrorCode


def live(**static: str) -> LiveConfig:
    return LiveConfig(BrokerConfig.from_mapping({name.replace("_", "."): text for name, text in static.items()}))


def test_dynamic_configs_take_precedence_over_static_ones() -> None:
    config = live(log_retention_ms="1000")
    for dynamic, value in [
        (Dynamic(), 1000),
        (Dynamic({"log.retention.ms": "2000"}), 2000),
        (Dynamic({"log.retention.ms": "2000"}, {"log.retention.ms": "3000"}), 3000),
        (Dynamic({}, {"log.retention.ms": "3000"}), 3000),
        (Dynamic(), 1000),
    ]:
        assert config.under(dynamic).get("log.retention.ms") == value


def test_unchanged_dynamic_configs_are_parsed_once() -> None:
    config = live()
    assert config.under(Dynamic({"log.retention.ms": "5"})) is config.under(Dynamic({"log.retention.ms": "5"}))
    assert config.under(Dynamic()) is not config.under(Dynamic({"log.retention.ms": "5"}))


def test_invalid_dynamic_values_are_ignored() -> None:
    config = live().under(Dynamic({"log.retention.ms": "soon", "log.segment.bytes": "2000000", "of.a.plugin": "x"}))
    assert (config.get("log.retention.ms"), config.get("log.segment.bytes")) == (None, 2_000_000)
    assert config.cluster == {"log.segment.bytes": "2000000", "of.a.plugin": "x"}


def test_dynamic_values_that_contradict_each_other_leave_the_static_config() -> None:
    config = live(log_segment_bytes="3000000")
    assert config.under(Dynamic({"log.retention.ms": "0", "log.segment.bytes": "2000000"})) is config.started


THREADS, PASSWORD = "log.cleaner.threads", "listener.name.external.ssl.keystore.password"
PROVIDER = {"config.providers": "file", "config.providers.file.class": next(iter(PROVIDERS))}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("threads=2\npassword=CANARY\n")
    return path


def with_provider(**static: str) -> BrokerConfig:
    return BrokerConfig.from_mapping(static, SystemConfigSources())


def read(live: LiveConfig, dynamic: Dynamic) -> BrokerConfig:
    """Return the config after its variables were read."""
    live.use(live.read(dynamic))
    return live.under(dynamic)


def test_variables_of_dynamic_configs_are_replaced_by_dynamic_and_static_providers(secrets: Path) -> None:
    threads, password = f"${{file:{secrets}:threads}}", f"${{file:{secrets}:password}}"
    live = LiveConfig(with_provider(**PROVIDER))
    config = read(live, Dynamic({}, {PASSWORD: password, THREADS: threads}))
    assert config.texts[PASSWORD] == "CANARY"
    assert config.get(THREADS) == 1, "as in Kafka, a number needs a dynamic provider"
    config = read(LiveConfig(with_provider()), Dynamic({}, {**PROVIDER, THREADS: threads}))
    assert config.get(THREADS) == 2
    described = {entry.name: entry for entry in describe_broker(config)}[THREADS]
    assert (described.value, described.synonyms[0].value) == ("2", threads)


def test_variables_that_cannot_be_read_leave_the_other_dynamic_configs(secrets: Path) -> None:
    secrets.unlink()
    texts = {**PROVIDER, THREADS: f"${{file:{secrets}:threads}}", "log.segment.bytes": "2000000"}
    for name in (PROVIDER["config.providers.file.class"], "com.example.Vault"):
        texts["config.providers.file.class"] = name
        for dynamic in (Dynamic(texts), Dynamic({}, texts)):
            live = LiveConfig(with_provider())
            with pytest.raises(ApiError):
                live.read(dynamic)
            config = live.under(dynamic)
            assert (config.get(THREADS), config.get("log.segment.bytes")) == (1, 2_000_000)


def test_values_with_variables_stay_under_other_dynamic_configs(secrets: Path) -> None:
    live = LiveConfig(with_provider())
    own = {**PROVIDER, THREADS: f"${{file:{secrets}:threads}}", PASSWORD: f"${{file:{secrets}:password}}"}
    assert live.under(Dynamic({}, own)).get(THREADS) == 1, "nothing has been read"
    assert read(live, Dynamic({}, own)).get(THREADS) == 2
    secrets.unlink()
    for size in ("2000000", "3000000"):
        config = live.under(Dynamic({"log.segment.bytes": size}, own))
        assert (config.get(THREADS), config.texts[PASSWORD]) == (2, "CANARY")
        assert config.get("log.segment.bytes") == int(size)
        live.under(Dynamic())
    secrets.write_text("threads=3")
    assert read(live, Dynamic({}, own)).get(THREADS) == 3


def test_a_broker_checks_a_dynamic_config_by_the_value_of_its_variable(secrets: Path) -> None:
    threads, password = f"${{file:{secrets}:threads}}", f"${{file:{secrets}:password}}"
    for wanted, message in (
        ({**PROVIDER, THREADS: threads}, None),
        ({PASSWORD: password}, None),
        ({THREADS: threads}, f"Invalid value {threads} for configuration {THREADS}: Not a number of type INT"),
        (
            {**PROVIDER, THREADS: password},
            f"Invalid value {password} for configuration {THREADS}: The value of the variable is no valid INT",
        ),
        ({**PROVIDER, THREADS: "${file:/nowhere:threads}"}, "Could not read properties from file /nowhere, in the"),
        ({**PROVIDER, "config.providers.file.class": "com.example.Vault"}, "Invalid value com.example.Vault for"),
    ):
        if message is None:
            check_broker_change("0", wanted, with_provider(**PROVIDER, **{"node.id": "0"}))
            continue
        with pytest.raises(ApiError) as refused:
            check_broker_change("0", wanted, with_provider(**PROVIDER, **{"node.id": "0"}))
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert str(refused.value).startswith(message)
        assert "CANARY" not in str(refused.value)


def test_a_controller_that_reads_no_files_leaves_variables_to_the_broker_that_has_checked_them() -> None:
    broker = BrokerConfig.from_mapping({"node.id": "0"}).with_dynamic({THREADS: "2"})
    unread = {**PROVIDER, THREADS: "${file:/nowhere:threads}"}
    for name in ("0", ""):
        check_broker_change(name, {**unread, "log.segment.bytes": "2000000"}, broker)
        with pytest.raises(ApiError, match="Not a number of type INT"):
            check_broker_change(name, {**unread, "log.segment.bytes": "many"}, broker)
        with pytest.raises(ApiError, match="cannot be increased to more than double"):
            check_broker_change(name, {**PROVIDER, THREADS: "5"}, broker)
    with pytest.raises(ApiError, match="broker id must be specified"):
        check_broker_change("", {**unread, "listeners": "PLAINTEXT://:1"}, broker)


def test_the_variables_of_another_broker_are_left_to_it() -> None:
    wanted = {**PROVIDER, THREADS: "${file:/nowhere:threads}"}
    check_broker_change("1", wanted, with_provider(**{"node.id": "0"}))
    with pytest.raises(ApiError, match="Not a number of type INT"):
        check_broker_change("1", {THREADS: "${file:/nowhere:threads}"}, with_provider(**{"node.id": "0"}))
