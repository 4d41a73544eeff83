"""Topics that the broker creates by itself, when a client asks for one or needs a coordinator."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

logger = logging.getLogger(__name__)


class AutomaticTopics:
    """A creator of topics that logs the controller's refusals, since many clients do not print them."""

    def __init__(self, controller: ActiveController, ticks: Callable[[], int]) -> None:
        self._controller = controller
        self._refusal = RateLimitedWarning(logger, ticks)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Return once the topics serve. ApiError: as of `ActiveController.ask`."""
        response = await self._controller.ask(request)
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._refusal.warn(
                    "the topic %s, which a client needs, is not created: %s",
                    topic.name,
                    topic.error_message or ErrorCode(topic.error_code).name,
                )
        return response
