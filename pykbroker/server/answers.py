"""A bounded cache of encoded responses that are valid as long as the image that they were made from is current."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from pykbroker.server.handler import EncodedResponse

ANSWERS_MAX = 1024
ANSWERS_BYTES_MAX = 4 << 20
"""Of all together, with their questions."""
TOPIC_BYTES = 160
"""What a question takes in memory for each topic, beside a name as long as in the answer."""


class Kept(msgspec.Struct, frozen=True):
    """An answer, and the topics (ids) that it is about."""

    answer: EncodedResponse
    topics: tuple[bytes, ...]


class Answers:
    """Answers by question, all made from one image, which never changes."""

    def __init__(self) -> None:
        self._image: object = None
        self._kept: dict[Hashable, Kept] = {}
        self._bytes = 0

    def find(self, image: object, question: Hashable) -> Kept | None:
        """What was answered; None if it was not asked of this image."""
        if image is not self._image:
            self._begin(image)
        return self._kept.get(question)

    def keep(self, image: object, question: Hashable, answer: EncodedResponse, topics: tuple[bytes, ...]) -> None:
        """Keep it, if it is not too large and its image is still the one that is asked.

        The question names no topic that is not among `topics`, and none twice.
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
