"""Tests of the handlers that the first request to their API builds."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pykbroker.broker import lifecycle
from pykbroker.broker.handlers import table
from pykbroker.broker.handlers.deferred import CLUSTER, CONFIGS, GROUPS, SECURITY, TRANSACTIONS
from pykbroker.server.handler import Handler
from pykbroker.server.table import ApiTable, DeferredHandler, served
from tests.unit.apis.conftest import serving
from tests.unit.server.rig import Api, NoTasks, Rig, heartbeat
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.frame import decode_response
from wire.messages.heartbeat import HeartbeatResponse

FAMILIES = (GROUPS, TRANSACTIONS, CONFIGS, CLUSTER, SECURITY)


async def test_each_deferred_api_is_built_in_the_versions_that_are_advertised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[ApiTable] = []

    def noted(*arguments: Any) -> ApiTable:
        tables.append(table.api_table(*arguments))
        return tables[0]

    monkeypatch.setattr(lifecycle, "api_table", noted)
    async with serving(tmp_path):
        deferred = [one for one in tables[0].handlers.values() if isinstance(one, DeferredHandler)]
        built = [one.built for one in deferred]
        families = [one.family() for one in deferred]
    assert served(built) == served(deferred)
    assert [(one.key, one.versions) for one in built] == [(one.key, one.versions) for one in deferred]
    assert set().union(*families) == {one.key for one in deferred}
    assert {one.keys for one in FAMILIES} == {frozenset(family) for family in families}


def test_a_table_builds_a_deferred_handler_at_the_first_request_and_not_before() -> None:
    real, calls = Api(ApiKey.HEARTBEAT, "0-4", lambda context, request: None), list[None]()

    def family() -> dict[ApiKey, Handler]:
        calls.append(None)
        return {real.key: real}

    routes = ApiTable([DeferredHandler(ApiKey.HEARTBEAT, family)])
    assert (served(routes.handlers.values())[0].max_version, calls) == (4, [])
    assert [routes[ApiKey.HEARTBEAT << 16 | version].handler for version in (4, 3, 4)] == [real] * 3
    assert len(calls) == 2


def test_a_handler_that_cannot_be_built_is_an_error_response_and_built_by_the_next_request() -> None:
    real = Api(ApiKey.HEARTBEAT, "0-4", lambda context, request: HeartbeatResponse())
    failures = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    def family() -> dict[ApiKey, Handler]:
        if failures:
            raise failures.pop()
        return {real.key: real}

    deferred = DeferredHandler(ApiKey.HEARTBEAT, family)
    rig = Rig(NoTasks(), deferred)
    rig.feed(heartbeat(1) + heartbeat(2))
    codes = [decode_response(HeartbeatResponse, 4, reply)[1].error_code for reply in rig.replies()]
    assert (codes, rig.closes) == ([ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE], 0)
