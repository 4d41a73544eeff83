"""A bounded cache of encoded responses, each valid until the metadata image that it was made from is replaced."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from pykbroker.server.handler import EncodedResponse

ANSWERS_MAX = 1024
ANSWERS_BYTES_MAX = 4 << 20
"""The maximum size of all cached responses and their keys."""
TOPIC_BYTES = 160
"""The memory that a cache key takes for each topic, without the name of the topic."""


class Kept(msgspec.Struct, frozen=True):
    """A cached response, and the ids of the topics that it describes."""

    answer: EncodedResponse
    topics: tuple[bytes, ...]


class Answers:
    """A cache of responses by question (a hashable form of the request), all made from one metadata image.

    The cache is emptied by a new image, and when it is full.
    """

    def __init__(self) -> None:
        self._image: object = None
        self._kept: dict[Hashable, Kept] = {}
        self._bytes = 0

    def find(self, image: object, question: Hashable) -> Kept | None:
        """Return the cached response to `question`, or None if none was made from this image."""
        if image is not self._image:
            self._begin(image)
        return self._kept.get(question)

    def keep(self, image: object, question: Hashable, answer: EncodedResponse, topics: tuple[bytes, ...]) -> None:
        """Cache a response, unless it is too large or its image is no longer current.

        `topics` has the ids of all topics that the question names.
        """
        size = sum(map(len, answer.parts)) + TOPIC_BYTES * len(topics)
        if image is self._image and size <= ANSWERS_BYTES_MAX:
            if len(self._kept) >= ANSWERS_MAX or self._bytes + size > ANSWERS_BYTES_MAX:
                self._begin(image)
            self._kept[question] = Kept(answer, topics)
            self._bytes += size

    def _begin(self, image: object) -> None:
        self._image, self._bytes = image, 0
        self._kept.clear()
