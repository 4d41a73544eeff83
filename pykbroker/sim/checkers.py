"""The checks of a history against the guarantees of a log. The anomalies are those of Jepsen's Kafka workload."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykbroker.sim.history import CONTROL, History, Place, PollResult, SendOutcome
from wire.sentinels import NO_OFFSET


class Anomaly(NamedTuple):
    """A violation of a guarantee. `kind` is the name of the anomaly."""

    kind: str
    place: Place
    what: str


class Logs(NamedTuple):
    """The records of each partition as clients have seen them.

    A log has the response that returned each record first, and the final complete read, which begins at `start`.
    """

    seen: dict[Place, dict[int, set[bytes]]]
    final: dict[Place, dict[int, bytes]]
    first: dict[Place, dict[bytes, int]]
    start: dict[Place, int]


def check(history: History, final: Iterable[PollResult], *, replicated: bool = False) -> list[Anomaly]:
    """Return every anomaly in a history. `final` has the complete read of each partition after the last fault.

    A partition without a complete read is checked only against the other responses. If partitions have several
    replicas, a new leader may return a lower high watermark than the one before it, and that is no anomaly. Records
    below the start of the complete read may be gone if an operator has had them deleted, and no others.
    """
    logs = _logs(history, final)
    return [
        *_check_starts(history, logs),
        *_check_offsets(logs),
        *_check_acknowledged(history, logs),
        *_check_origin(history, logs),
        *_check_order(history, logs),
        *_check_polls(history),
        *([] if replicated else _check_high_watermarks(history.polls)),
    ]


def _logs(history: History, final: Iterable[PollResult]) -> Logs:
    logs = Logs(defaultdict(lambda: defaultdict(set)), {}, defaultdict(dict), {})
    for poll in final:
        logs.final[poll.place] = dict(poll.found)
        logs.start[poll.place] = poll.offset
    for place, entries in logs.final.items():
        for offset, value in sorted(entries.items()):
            logs.seen[place][offset].add(value)
            if value != CONTROL:
                logs.first[place].setdefault(value, offset)
    for poll in history.polls:
        for offset, value in poll.found:
            logs.seen[poll.place][offset].add(value)
    return logs


def _check_starts(history: History, logs: Logs) -> Iterator[Anomaly]:
    """Find partitions that begin, and offsets that were out of range, above all that was deleted."""
    for place, start in logs.start.items():
        if start > history.deleted.get(place, 0):
            yield Anomaly("lost begin", place, f"from {history.deleted.get(place, 0)} to the log start {start}")
    for lapse in history.lapses:
        if max(lapse.offset + 1, lapse.first_offset) > (deleted := history.deleted.get(lapse.place, 0)):
            what = f"{lapse.consumer} at {lapse.offset} was out of range, and the log began at {lapse.first_offset}"
            yield Anomaly("out of range", lapse.place, f"{what}, though nothing above {deleted} was deleted")


def _check_offsets(logs: Logs) -> Iterator[Anomaly]:
    """Find offsets with two values, and values at two offsets."""
    for place, entries in logs.seen.items():
        for offset, values in sorted(entries.items()):
            if len(values) > 1:
                yield Anomaly("two values at one offset", place, f"{offset}: {', '.join(sorted(map(short, values)))}")
    for place, final in logs.final.items():
        for offset, value in sorted(final.items()):
            first = logs.first[place].get(value, offset)
            if first != offset:
                yield Anomaly("duplicate", place, f"{short(value)} at {first} and {offset}")


def _check_acknowledged(history: History, logs: Logs) -> Iterator[Anomaly]:
    """Find acknowledged values that are missing, or that are not at the offset of the acknowledgement."""
    for send in history.sends:
        if send.outcome is not SendOutcome.ACKNOWLEDGED or send.place not in logs.final:
            continue
        for delta, value in enumerate(send.values):
            found = logs.first[send.place].get(value)
            offset = send.base_offset + delta
            if found is None and (start := logs.start[send.place]) and offset < start:
                continue  # it was deleted, or its offset is unknown
            if found is None:
                yield Anomaly("lost write", send.place, f"{short(value)}, acknowledged at {offset}, is nowhere")
            elif send.base_offset != NO_OFFSET and found != offset:
                yield Anomaly("moved write", send.place, f"{short(value)}, acknowledged at {offset}, is at {found}")


def _check_origin(history: History, logs: Logs) -> Iterator[Anomaly]:
    """Find values that no producer sent to the partition, values that were refused, and values that disappeared."""
    outcomes = {(send.place, value): send.outcome for send in history.sends for value in send.values}
    for place, entries in logs.seen.items():
        final = logs.final.get(place)
        start = logs.start.get(place, 0)
        for offset, values in sorted(entries.items()):
            for value in sorted(values):
                outcome = outcomes.get((place, value))
                if outcome is None and value != CONTROL:
                    yield Anomaly("invented", place, f"{short(value)} at {offset} was never sent there")
                elif outcome is SendOutcome.REFUSED:
                    yield Anomaly("refused, yet there", place, f"{short(value)} at {offset}")
                if final is not None and offset >= start and final.get(offset) != value and len(values) == 1:
                    yield Anomaly("unread", place, f"{short(value)} was read at {offset} and is gone")


def _check_order(history: History, logs: Logs) -> Iterator[Anomaly]:
    """Find values of one producer that are in another order than the producer sent them."""
    last: dict[tuple[str, Place], int] = {}
    for send in history.sends:
        for value in send.values:
            offset = logs.first[send.place].get(value)
            if offset is None:
                continue
            before = last.get((send.producer, send.place), NO_OFFSET)
            if offset < before:
                yield Anomaly("order", send.place, f"{short(value)} at {offset}, after one at {before}")
            last[send.producer, send.place] = offset


def _check_polls(history: History) -> Iterator[Anomaly]:
    """Find polls that skip an offset."""
    for poll in history.polls:
        expected = poll.offset
        for offset, value in poll.found:
            if offset != expected:
                kind = "skipped" if offset > expected else "went back"
                yield Anomaly(kind, poll.place, f"{poll.consumer} got {short(value)} at {offset}, not {expected}")
            expected = offset + 1


def _check_high_watermarks(polls: list[PollResult]) -> Iterator[Anomaly]:
    """Find a high watermark below a high watermark that was returned before the request was sent."""
    received: dict[Place, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    for poll in sorted(polls, key=lambda poll: poll.ended_s):
        times, highest = received[poll.place]
        before = bisect_right(times, poll.began_s)
        if before and highest[before - 1] > poll.high_watermark:
            yield Anomaly("high watermark back", poll.place, f"from {highest[before - 1]} to {poll.high_watermark}")
        times.append(poll.ended_s)
        highest.append(max(poll.high_watermark, highest[-1] if highest else 0))


def short(value: bytes) -> str:
    """Return the first word of a value, without its padding."""
    return value.partition(b" ")[0].decode(errors="replace")
