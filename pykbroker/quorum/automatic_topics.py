"""The creation of topics that no CreateTopics request asked for: auto-created topics and the topics of coordinators."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable
from functools import partial

import trio

from pykbroker.core.errors import ApiError
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.images import Images
from pykbroker.quorum.ongoing import OngoingWork
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from wire.error_codes import ErrorCode, error_code
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

Ask = Callable[[CreateTopicsRequest], Awaitable[CreateTopicsResponse]]
"""A function that returns the response of the controller. It raises the errors of `ActiveController.ask`."""
APPLIED_S_MAX = 5
"""The time in which this broker applies what a controller in another process has created."""

logger = logging.getLogger(__name__)


class AutomaticTopics:
    """A creator of topics that logs why the controller refuses one, since many clients do not print the reason."""

    def __init__(
        self, controller: ActiveController, images: Images, ticks: Callable[[], int], ongoing: OngoingWork
    ) -> None:
        self._controller, self._images, self._ongoing = controller, images, ongoing
        self._refusal = RateLimitedWarning(logger, ticks)

    async def create_topics(
        self, request: CreateTopicsRequest, ask: Ask | None = None, basis: Hashable = None
    ) -> CreateTopicsResponse:
        """Create the topics and return once this broker serves them.

        `ask` asks the controller in the name of a client, whose rights depend on `basis`. By default, this broker asks
        in its own name.

        Raise ApiError as `ActiveController.ask` does, or REQUEST_TIMED_OUT if the creation goes on for longer than
        `ongoing.WAIT_S_MAX`. A repeated request then waits for the same creation.
        """
        key = (AutomaticTopics, basis, *sorted(topic.name for topic in request.topics))
        return await self._ongoing.result(key, partial(self._create, request, ask or self._controller.ask))

    async def _create(self, request: CreateTopicsRequest, ask: Ask) -> CreateTopicsResponse:
        try:
            response = await ask(request)
        except ApiError as error:
            self._refusal.warn("%d topics, which a client needs, are not created: %s", len(request.topics), error)
            raise
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._refusal.warn(
                    "the topic %s, which a client needs, is not created: %s",
                    topic.name,
                    topic.error_message or error_code(topic.error_code).name,
                )
        made = [topic.name for topic in response.topics if topic.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)]
        with trio.move_on_after(APPLIED_S_MAX):
            await self._images.wait_until(lambda image: all(name in image.topics.by_name for name in made))
        return response
