"""Batch queries with filters, in versions of Spark that push them down to a Python data source (4.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykbroker.pipeline.source.batch_reader import TopicBatchReader
from pykbroker.pipeline.source.lookups import OffsetLookup
from pykbroker.pipeline.source.narrowing import Narrowing
from pykbroker.pipeline.source.offset_json import OffsetMap
from pykbroker.pipeline.source.offset_limits import EveryTimestamp


class FilteredBatchReader(TopicBatchReader):
    """A reader of the offsets that may have records for the filters of a query."""

    _narrowing = Narrowing()

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take filters, and return all of them, since Spark has to filter what is read."""
        self._narrowing = Narrowing.of(filters)
        return filters

    def _narrowed(self, lookup: OffsetLookup, starts: OffsetMap, ends: OffsetMap) -> tuple[OffsetMap, OffsetMap]:
        narrowing = self._narrowing
        kept = [each for each in starts if narrowing.keeps(each)]
        found, since_ms = {each: starts[each] for each in kept}, narrowing.since_ms
        if since_ms is not None:
            since = lookup.resolved(EveryTimestamp(since_ms, True), kept, starts=True)
            found = {each: max(offset, since.get(each, offset)) for each, offset in found.items()}
        return narrowing.ranges(found, {each: ends[each] for each in kept})
