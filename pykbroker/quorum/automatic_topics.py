"""Topics that the broker creates by itself, when a client asks for one or needs a coordinator."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.quorum.controller import Controller
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

logger = logging.getLogger(__name__)


class AutomaticTopics:
    """Creates topics as `Controller` does. Many clients do not show why that was refused, and so the log says it."""

    def __init__(self, controller: Controller, ticks: Callable[[], int]) -> None:
        self._controller = controller
        self._refusal = RateLimitedWarning(logger, ticks)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """The topics serve when this returns. ApiError, as of `Controller.create_topics`."""
        response = await self._controller.create_topics(request)
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._refusal.warn(
                    "the topic %s, which a client needs, is not created: %s",
                    topic.name,
                    topic.error_message or ErrorCode(topic.error_code).name,
                )
        return response
