"""Tests of the topics that a broker creates because a client needs them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.quorum.automatic_topics import AutomaticTopics
from pykbroker.quorum.ongoing import OngoingWork
from wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


class NoImages:
    async def wait_until(self, _: object) -> None:
        await trio.lowlevel.checkpoint()


async def test_an_error_that_only_a_newer_controller_knows_is_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(_: object) -> Any:
        await trio.lowlevel.checkpoint()
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=9999)])

    unused: Any = None
    images: Any = NoImages()
    ongoing = OngoingWork()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ongoing.run)
        await trio.testing.wait_all_tasks_blocked()
        topics = AutomaticTopics(unused, images, lambda: 0, ongoing)
        response = await topics.create_topics(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), ask)
        nursery.cancel_scope.cancel()
    assert response.topics[0].error_code == 9999
    assert caplog.messages == ["the topic t, which a client needs, is not created: UNKNOWN_SERVER_ERROR"]
