"""Tests of a running broker's config providers, which are read off the event loop and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykbroker.broker.current_config import CurrentConfig
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.providers import PROVIDERS
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import ConfigsImage, MetadataImage
from pykbroker.quorum.own_configs import OwnConfigs
from wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

THREADS, SEGMENT, STORE = "log.cleaner.threads", "log.segment.bytes", "listener.name.c.ssl.keystore.password"
PROVIDER = {"config.providers": "file", "config.providers.file.class": next(iter(PROVIDERS))}
VARIABLES = {**PROVIDER, THREADS: "${file:/f:threads}", STORE: "${file:/f:password}"}


class SlowFile:
    """A properties file that may be read off the event loop alone."""

    environ: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.entries: Mapping[str, str] | None = {"threads": "2", "password": "secret"}
        self._is_off_loop = False

    async def off_loop(self, function: Callable[..., Any], *args: object) -> Any:
        self._is_off_loop = True
        try:
            return function(*args)
        finally:
            self._is_off_loop = False

    def exists(self, path: str) -> bool:
        raise AssertionError(path)

    def file_in(self, directory: str, name: str) -> str:
        raise AssertionError(directory)

    def properties(self, path: str) -> Mapping[str, str]:
        assert self._is_off_loop
        if self.entries is None:
            raise OSError
        return self.entries


class Broker:
    """The broker 1, with dynamic configs that a test changes."""

    def __init__(self) -> None:
        self.file, self.image = SlowFile(), MetadataImage()
        self.live = LiveConfig(BrokerConfig.from_mapping({"node.id": "1"}, self.file))
        self.config = CurrentConfig(self.live, lambda: self.image, 1, self.file.off_loop)

    async def set(self, **more: str) -> None:
        """Set the configs with variables, and others."""
        texts = {**VARIABLES, **{name.replace("_", "."): text for name, text in more.items()}}
        self.image = MetadataImage(configs=ConfigsImage({(ConfigResource.BROKER, "1"): texts}))
        self.config()
        await self.config.read(self.image)

    @property
    def found(self) -> tuple[Any, str | None, Any]:
        """Return the effective values of the configs."""
        config = self.config()
        return config.get(THREADS), config.texts.get(STORE), config.get(SEGMENT)


async def test_variables_have_the_values_that_were_read_last() -> None:
    broker = Broker()
    await broker.set(log_segment_bytes="2000000")
    assert broker.found == (2, "secret", 2_000_000)
    broker.file.entries = {"threads": "3", "password": "other"}
    assert broker.found == (2, "secret", 2_000_000)
    await broker.set(log_segment_bytes="2000000")
    assert broker.found == (3, "other", 2_000_000)


async def test_values_that_cannot_be_read_any_more_stay_and_the_reason_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker()
    await broker.set()
    entries, broker.file.entries = broker.file.entries, None
    for size in ("2000000", "3000000"):
        await broker.set(log_segment_bytes=size)
        assert broker.found == (2, "secret", int(size))
    assert caplog.messages == [
        f"config providers: Could not read properties from file /f, in the value of {THREADS}. Values with variables"
        " stay as they were"
    ]
    broker.file.entries = entries
    await broker.set()
    broker.file.entries = None
    await broker.set()
    assert len(caplog.messages) == 2


async def test_new_configs_are_checked_and_passed_to_the_stores_with_the_values_of_their_variables() -> None:
    broker, checked = Broker(), list[Mapping[str, str]]()

    async def check_stores(texts: Mapping[str, str]) -> None:
        checked.append(texts)

    own = OwnConfigs(1, broker.live, lambda: broker.image, broker.file.off_loop, check_stores)
    configs = [AlterableConfig(name, 0, text) for name, text in VARIABLES.items()]
    await own.check(AlterConfigsResource(ConfigResource.BROKER, "1", configs))
    assert [texts[STORE] for texts in checked] == ["secret"]
    broker.file.entries = {"threads": "many", "password": "secret"}
    with pytest.raises(ApiError, match="The value of the variable is no valid INT"):
        await own.check(AlterConfigsResource(ConfigResource.BROKER, "1", configs))
