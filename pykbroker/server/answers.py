"""A bounded cache of encoded responses that are valid as long as the image that they were made from is current."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from pykbroker.server.handler import EncodedResponse

ANSWERS_MAX = 1024
ANSWERS_BYTES_MAX = 4 << 20
"""The size of all kept responses and their questions."""
TOPIC_BYTES = 160
"""The memory that a question takes for each topic, apart from a name as long as in the response."""


class Kept(msgspec.Struct, frozen=True):
    """A kept response, and the ids of the topics that it describes."""

    answer: EncodedResponse
    topics: tuple[bytes, ...]


class Answers:
    """The kept responses by question, all made from one image. A new image drops them all, and so does a full cache."""

    def __init__(self) -> None:
        self._image: object = None
        self._kept: dict[Hashable, Kept] = {}
        self._bytes = 0

    def find(self, image: object, question: Hashable) -> Kept | None:
        """Return the kept response to `question`, or None if none was made from this image."""
        if image is not self._image:
            self._begin(image)
        return self._kept.get(question)

    def keep(self, image: object, question: Hashable, answer: EncodedResponse, topics: tuple[bytes, ...]) -> None:
        """Keep a response, unless it is too large or its image is no longer current.

        The question names only topics of `topics`, and each of them once.
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
