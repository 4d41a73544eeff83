"""Tests of the images that a controller publishes to its subscriber."""

from __future__ import annotations

import trio
import trio.testing

from pykbroker.core.metadata.image import EMPTY, Delta, MetadataImage
from pykbroker.quorum.images import Images


def delta(before: int, after: int, *topics: bytes) -> Delta:
    return Delta(
        MetadataImage(offset=before) if before >= 0 else EMPTY,
        MetadataImage(offset=after),
        topics_changed=frozenset(topics),
    )


async def test_requesting_the_next_image_marks_the_previous_one_as_applied() -> None:
    images = Images(delta(-1, 4))
    updates = aiter(images.updates())
    assert (await anext(updates)).image.offset == 4
    assert (images.current.offset, images.committed.offset) == (-1, 4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(anext, updates)
        await trio.testing.wait_all_tasks_blocked()
        assert images.current.offset == 4
        images.publish(delta(4, 5))
        assert images.committed.offset == 5
        assert images.current.offset == 4


async def test_images_that_the_subscriber_has_not_taken_are_merged_into_one_update() -> None:
    images = Images(delta(-1, 4, b"a"))
    images.publish(delta(4, 5, b"b"))
    images.publish(delta(5, 6, b"c"))
    taken = await anext(aiter(images.updates()))
    assert (taken.previous, taken.image.offset, taken.topics_changed) == (EMPTY, 6, frozenset({b"a", b"b", b"c"}))


async def test_a_caller_waits_until_an_offset_is_applied() -> None:
    images = Images(delta(-1, 4))
    reached = []

    async def wait(offset: int) -> None:
        await images.wait_for(offset)
        reached.append(offset)

    async with trio.open_nursery() as nursery:
        for offset in (4, 5, -1):
            nursery.start_soon(wait, offset)
        await trio.testing.wait_all_tasks_blocked()
        assert reached == [-1]
        images.apply(MetadataImage(offset=4))
        await trio.testing.wait_all_tasks_blocked()
        assert reached == [-1, 4]
        images.apply(MetadataImage(offset=9))
        await trio.testing.wait_all_tasks_blocked()
        assert reached == [-1, 4, 5]
