"""The job `verify`: it proves that an archive and a topic have the same records.

1. An archive claims the offsets up to which its last batch has read. Both sides are compared up to there.
2. The topic is read in its own isolation level, so that transaction markers and aborted records explain themselves:
   neither side has them.
3. A record that only the archive has is explained if the topic is compacted and the record has a successor.
4. Below the start of a log, where retention has deleted records, and for a compacted topic, the numbers and checksums
   of the archive's own commits are the judge. Without brokers they are the judge of all records.
5. Offsets that were deleted before they were archived are a loss, whether the archive or the start of the log says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds, PipelineCluster, named, recreated_topics, require_topics
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.archived import (
    ArchiveClaims,
    ArchivedRecords,
    archive_directory,
    read_claims,
    read_topic_ids,
    unnamed_files,
    with_archive,
)
from pykbroker.pipeline.jobs.commits import ArchivedRange, unproven_note
from pykbroker.pipeline.jobs.differences import (
    ALONE,
    DIFFERENT,
    DOUBLE,
    MISSING,
    STRAYED,
    ComparedOffsets,
    Difference,
    compacted_away,
    differing_limits,
    differing_records,
    doubles,
    totals,
    within,
)
from pykbroker.pipeline.jobs.proof import (
    HeldRecords,
    between_batches,
    differing_batches,
    held_records,
    strayed,
    unlike,
    unproven_losses,
)
from pykbroker.pipeline.jobs.shortfalls import limits_of, newer_ranges
from pykbroker.pipeline.jobs.skipped import SkippedRange, merged, never_archived, skipped_losses
from pykbroker.pipeline.jobs.unreadable import names_damage, unreadable_file
from pykbroker.pipeline.quantities import counted
from pykbroker.pipeline.reading import TopicsToRead, read_records
from pykbroker.pipeline.report import JobReport, Say
from pykbroker.pipeline.session import PipelineSession, retried_by_data_source
from pykbroker.pipeline.source.offset_json import offsets_text
from pykbroker.pipeline.spark_errors import is_loss, is_of_spark, root_cause, trace
from pykbroker.pipeline.storage import storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = "verify"
COMPARISONS_MAX = 5
"""The number of comparisons with topics whose logs begin elsewhere after each of them."""
WORDS = {
    MISSING: "are missing in the archive",
    DOUBLE: "are in the archive more than once",
    ALONE: "are in the archive alone",
    DIFFERENT: "differ from those of the topic",
    STRAYED: "are not under the day of their timestamp",
}


class VerifySettings(msgspec.Struct, frozen=True):
    """The settings of the job. Without a source, the archive is compared with its own commits.

    `topics` may then restrict it to some topics.
    """

    source: TopicsToRead | None
    archive: str
    format: str = "parquet"
    topics: tuple[str, ...] = ()


class Comparison(NamedTuple):
    """The differences of the two sides, and the number of records that compaction explains."""

    differences: list[Difference]
    compacted: int


def verify(session: PipelineSession, settings: VerifySettings, say: Say) -> JobReport:
    """Run the job. The report has a loss for each kind of difference in a partition, and for files without content."""
    begun = time.monotonic()
    try:
        if settings.source is None:
            report = with_archive(
                session.spark, settings, JOB, lambda archived: _verified_alone(session, settings, archived, say), say
            )
        else:
            report = retried_by_data_source(
                session, lambda session: _verified(session, settings, say), lambda line: say(f"verify: {line}")
            )
    except Exception as error:
        if not is_of_spark(error) or not names_damage(text := trace(error)):
            raise
        path = unreadable_file(text, archive_directory(session.spark, settings.archive, settings.format))
        if path is None:
            raise
        report = JobReport(JOB, {}, [f"a file of the archive cannot be read: {path}: {root_cause(text)}"])
    report.seconds = time.monotonic() - begun
    return report


def _verified_alone(session: PipelineSession, settings: VerifySettings, found: ArchivedRecords, say: Say) -> JobReport:
    """Compare an archive with its own commits."""
    topics, archived = settings.topics, found.records
    claims = _of_topics(found.claims, topics)
    if not claims.ends:
        raise PipelineError(f"{settings.archive} has no commits{' of these topics' * bool(topics)}: nothing proves it")
    if not claims.has_sums:
        raise PipelineError(f"{settings.archive} has no sums of its batches: compare it with its topics")
    _say_state(claims, say)
    held = held_records(archived, has_checksums=True)
    _say_found(held, say)
    if without := [
        f"{key} up to offset {claims.proven[key].first - 1 if key in claims.proven else each.last}"
        for key, each in sorted(claims.ranges.items())
        if each.checksum is None
    ]:
        say(f"verify: without checksums, records are proven by their numbers alone: {', '.join(without)}")
    keys = held.ranges.keys() | claims.ranges.keys()
    losses = [*found.damages, *_unnamed(session, settings, claims, topics), *_own_losses(archived, claims, held, keys)]
    losses += _strayed_losses(archived, held) + skipped_losses(claims.skipped)
    never = sum(each.end - each.first for each in claims.skipped)
    records = sum(each.count for each in held.ranges.values())
    return JobReport(JOB, {"records": records, "partitions": len(held.ranges), "never_archived": never}, losses)


def _own_losses(
    archived: DataFrame, claims: ArchiveClaims, held: HeldRecords, keys: Collection[TopicPartition]
) -> list[str]:
    """Return the differences between partitions and their commits. `held` has their checksums.

    If a partition has batches of an earlier version, its batches with checksums are also compared by themselves.
    """
    claimed = {key: each for key, each in claims.ranges.items() if key in keys}
    found = {key: each for key, each in held.ranges.items() if key in keys}
    losses = unproven_losses(claimed, found) if claims.has_sums else []
    differing = unlike(claimed, found)
    if newer := newer_ranges({key: each for key, each in claimed.items() if key not in differing}, claims.proven):
        found |= held_records(within(archived, limits_of(newer)), has_checksums=True).ranges
        differing |= unlike(newer, found)
    if differing:
        losses = differing_batches(archived, claims.batches, differing) + losses
    return losses + between_batches(differing, found, losses)


def _strayed_losses(archived: DataFrame, held: HeldRecords) -> list[str]:
    return explained(strayed(archived)) if held.has_strayed else []


def _unnamed(
    session: PipelineSession, settings: VerifySettings, claims: ArchiveClaims, topics: Collection[str]
) -> list[str]:
    """Return a sentence for each file of a directory that no commit names."""
    if settings.format == "iceberg":
        return []
    return unnamed_files(storage_of(session.spark, settings.archive), claims, topics)


def _say_state(claims: ArchiveClaims, say: Say) -> None:
    if note := unproven_note(claims.unproven):
        say(f"verify: {note}")
    if claims.is_pending:
        say("verify: a batch is only half in the archive: `pykbroker pipeline archive` completes it at its next start")


def _say_found(held: HeldRecords, say: Say) -> None:
    records = counted(sum(each.count for each in held.ranges.values()), "archived record")
    say(f"verify: {records} in {counted(len(held.ranges), 'partition')}")


def _of_topics(claims: ArchiveClaims, topics: Collection[str]) -> ArchiveClaims:
    """Return the claims about some topics, or about all without any."""
    if not topics:
        return claims
    return claims._replace(
        ends={key: end for key, end in claims.ends.items() if key.topic in topics},
        skipped=[each for each in claims.skipped if each.topic in topics],
        ranges={key: each for key, each in claims.ranges.items() if key.topic in topics},
        proven={key: each for key, each in claims.proven.items() if key.topic in topics},
    )


def _verified(session: PipelineSession, settings: VerifySettings, say: Say) -> JobReport:
    source = settings.source
    assert source is not None, "there is a cluster to compare with"
    cluster = source.cluster()
    facts = cluster.facts(named(source.topics))
    require_topics(facts, source.topics)
    topic_ids = read_topic_ids(session.spark, settings.archive, settings.format)
    if note := recreation(topic_ids, facts):
        say(f"verify: {note}")

    def compare(found: ArchivedRecords) -> JobReport:
        claims = _of_topics(found.claims, source.topics)
        _say_state(claims, say)
        held = held_records(found.records, has_checksums=False)
        names = {*topic_ids, *(key.topic for key in (*held.ranges, *claims.ends))}
        require_archived(settings.archive, source.topics, names)
        _say_found(held, say)
        facts = cluster.facts(named(source.topics))  # the archive may have partitions that are new since the first ones
        against = partial(_against_topics, session, settings, cluster, found._replace(claims=claims), held)
        return with_still_logs(lambda: cluster.ends(facts), against)

    return with_archive(session.spark, replace(settings, topics=source.topics), JOB, compare, say)


def with_still_logs(read_ends: Callable[[], LogEnds], compare: Callable[[LogEnds], JobReport]) -> JobReport:
    """Return the report of a comparison with logs up to their ends.

    Retention may delete records of the logs meanwhile. They seem to be lost then, or stop the comparison. It is made
    again with the new ends if it has failed because of lost records, or has found losses.
    """
    for attempt in range(1, COMPARISONS_MAX + 1):
        ends = read_ends()
        try:
            report = compare(ends)
        except Exception as error:
            if attempt == COMPARISONS_MAX or not is_loss(error) or read_ends().first == ends.first:
                raise
        else:
            if attempt == COMPARISONS_MAX or not report.losses or read_ends().first == ends.first:
                return report
    raise AssertionError("the last comparison has a report or an error")


def _against_topics(
    session: PipelineSession,
    settings: VerifySettings,
    cluster: PipelineCluster,
    archive: ArchivedRecords,
    held: HeldRecords,
    ends: LogEnds,
) -> JobReport:
    """Compare an archive with the records that topics have before these ends, and with its own commits."""
    source, (claims, archived, damages) = settings.source, archive
    assert source is not None, "there is a cluster to compare with"
    spans = held.ranges
    require_partitions({*spans, *claims.ends}, ends)
    limits = comparable(spans, claims.ends, ends)
    compacted = cluster.compacted(source.topics)
    found = _compared(session, settings, archived, limits, compacted, ends)
    losses = behind_the_end(spans, ends)
    losses += explained([*_early_doubles(archived, spans, ends), *found.differences])
    losses += _unproven_by_topic(archived, claims, ends, compacted)
    losses += count_losses(claims.ranges, spans) if claims.has_sums else []
    losses += [*_strayed_losses(archived, held), *damages, *_unnamed(session, settings, claims, source.topics)]
    skipped = merged(claims.skipped, _never_archived(session, settings, claims, spans, ends))
    losses += skipped_losses(skipped)
    return JobReport(JOB, {**figures(spans, claims.ends, ends, skipped), "compacted": found.compacted}, losses)


def _unproven_by_topic(
    archived: DataFrame, claims: ArchiveClaims, ends: LogEnds, compacted: Collection[str]
) -> list[str]:
    """Return the differences from the commits in partitions of which the topic may lack records."""
    keys = {
        key: (0, each.last + 1)
        for key, each in claims.proven.items()
        if key.topic in compacted or each.first < ends.first[key]
    }
    if not keys:
        return []
    held = held_records(within(archived, keys), has_checksums=True)
    return _own_losses(archived, claims, held, keys)


def _never_archived(
    session: PipelineSession,
    settings: VerifySettings,
    claims: ArchiveClaims,
    spans: Mapping[TopicPartition, ArchivedRange],
    ends: LogEnds,
) -> list[SkippedRange]:
    """Return the offsets that were deleted behind the archive's end. A running archive may have reached them since."""

    def gaps(now: ArchiveClaims) -> list[SkippedRange]:
        topics = {key.topic for key in (*spans, *now.ends)}
        reached = {key: archived_end(key, spans, now.ends) for key in {*spans, *now.ends}}
        return never_archived(reached, ends.first, topics)

    return gaps(claims) and gaps(read_claims(session.spark, settings.archive, settings.format))


def figures(
    spans: Mapping[TopicPartition, ArchivedRange],
    claimed: Mapping[TopicPartition, int],
    ends: LogEnds,
    skipped: Sequence[SkippedRange] = (),
) -> dict[str, int]:
    """Return the numbers of a report. Offsets without records are those of transactions, and of earlier compaction."""

    def never_archived(key: TopicPartition, first: int, end: int) -> int:
        return sum(each.within(first, end) for each in skipped if (each.topic, each.partition) == key)

    def archived_offsets(key: TopicPartition, first: int, end: int) -> int:
        return max(0, end - first) - never_archived(key, first, end)

    return {
        "records": sum(each.count for each in spans.values()),
        "partitions": len(spans),
        "not_archived_yet": sum(
            max(0, end - max(ends.first[key], archived_end(key, spans, claimed))) for key, end in ends.next.items()
        ),
        "deleted_by_retention": sum(
            archived_offsets(key, each.first, min(ends.first[key], each.last + 1)) for key, each in spans.items()
        ),
        "never_archived": sum(each.end - each.first for each in skipped),
        "offsets_without_records": sum(
            max(0, archived_offsets(key, each.first, each.last + 1) - each.count) for key, each in spans.items()
        ),
    }


def archived_end(
    key: TopicPartition, spans: Mapping[TopicPartition, ArchivedRange], claimed: Mapping[TopicPartition, int]
) -> int:
    """Return the offset up to which an archive has a partition: behind its last record, or what it claims."""
    return max(spans[key].last + 1 if key in spans else 0, claimed.get(key, 0))


def comparable(
    spans: Mapping[TopicPartition, ArchivedRange], claimed: Mapping[TopicPartition, int], ends: LogEnds
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offsets that both sides should have: from the start of the log to where the archive ends."""
    found = {
        key: (ends.first[key], min(archived_end(key, spans, claimed), ends.next[key])) for key in {*spans, *claimed}
    }
    return {key: found[key] for key in sorted(found) if found[key][0] < found[key][1]}


def require_archived(archive: str, wanted: Collection[str], topics: Collection[str]) -> None:
    """Raise PipelineError if the archive has nothing of a topic. A topic that is empty itself has ends there."""
    if unknown := sorted(set(wanted) - set(topics)):
        raise PipelineError(
            f"{archive} has neither records nor commits of {', '.join(unknown)}: there is nothing to verify"
        )


def require_partitions(archived: Iterable[TopicPartition], ends: LogEnds) -> None:
    """Raise PipelineError if the cluster lacks a partition."""
    if unknown := sorted(str(each) for each in archived if each not in ends.next):
        raise PipelineError(
            f"the archive has {', '.join(unknown)}, which the cluster lacks: was the topic created again?"
        )


def recreation(before: Mapping[str, str], now: ClusterFacts) -> str:
    """Return a sentence about topics that are others than those of the archive, or nothing."""
    recreated = recreated_topics(before, now.topic_ids)
    if not recreated:
        return ""
    return f"topic {', '.join(recreated)} was deleted and created again since the archive began"


def behind_the_end(spans: Mapping[TopicPartition, ArchivedRange], ends: LogEnds) -> list[str]:
    """Return a sentence for each partition whose archive has records behind the end of the log."""
    return [
        f"{key}: the archive has records up to offset {each.last}, and the log ends at {ends.next[key]}"
        for key, each in sorted(spans.items())
        if each.last >= ends.next[key]
    ]


def _compared(
    session: PipelineSession,
    settings: VerifySettings,
    archived: DataFrame,
    limits: ComparedOffsets,
    compacted: frozenset[str],
    ends: LogEnds,
) -> Comparison:
    """Return the differences between the sides, without those that compaction explains."""
    assert settings.source is not None, "there is a cluster to compare with"
    if not limits:
        return Comparison([], 0)
    stored = read_records(session, assigned(settings.source, limits), **offsets(limits))
    unlike = differing_limits(within(archived, limits), stored, limits)
    if not unlike:
        return Comparison([], 0)
    stored = read_records(session, assigned(settings.source, unlike), **offsets(unlike))
    found = differing_records(within(archived, unlike), stored)
    counted = totals(found)
    suspects = {TopicPartition(each.topic, each.partition) for each in counted if each.kind == ALONE}
    suspects = {key for key in suspects if key.topic in compacted}
    if not suspects:
        return Comparison(counted, 0)
    whole = {key: (ends.first[key], ends.next[key]) for key in suspects}
    latest = read_records(session, assigned(settings.source, whole), **offsets(whole))
    alone = within(found.where(f"kind = '{ALONE}'"), whole)
    removed = compacted_away(alone, archived, latest).cache()
    rest = found.join(removed, ["topic", "partition", "offset"], "left_anti")
    return Comparison(totals(rest), removed.count())


def _early_doubles(
    archived: DataFrame, spans: Mapping[TopicPartition, ArchivedRange], ends: LogEnds
) -> list[Difference]:
    """Return the double records among those that the topic no longer has."""
    early = {key: (each.first, ends.first[key]) for key, each in spans.items() if each.first < ends.first[key]}
    return totals(doubles(within(archived, early))) if early else []


def assigned(source: TopicsToRead, partitions: Iterable[TopicPartition]) -> TopicsToRead:
    """Return the same source, restricted to some partitions."""
    assign = {topic: sorted(indexes) for topic, indexes in indexes_by_topic(partitions).items()}
    text = msgspec.json.encode(assign).decode()
    return msgspec.structs.replace(source, topics=(), pattern="", options={**source.options, "assign": text})


def offsets(limits: ComparedOffsets) -> dict[str, str]:
    """Return limits as options of the `kafka` format."""
    starts, stops = ({key: found[side] for key, found in limits.items()} for side in (0, 1))
    return {"startingOffsets": offsets_text(starts), "endingOffsets": offsets_text(stops)}


def explained(differences: Iterable[Difference]) -> list[str]:
    """Return a sentence for each kind of difference of a partition."""
    return [
        f"{each.topic}-{each.partition}: {each.records:,} records {WORDS[each.kind]}, "
        f"between the offsets {each.first} and {each.last}"
        if each.records > 1
        else f"{each.topic}-{each.partition}: the record at offset {each.first} "
        f"{WORDS[each.kind].replace('are ', 'is ').replace('differ from those', 'differs from that')}"
        for each in differences
    ]


def count_losses(
    claimed: Mapping[TopicPartition, ArchivedRange], found: Mapping[TopicPartition, ArchivedRange]
) -> list[str]:
    """Return a sentence for each partition of which the files have other numbers of records than the commits."""
    keys = sorted(claimed.keys() | found.keys())
    counts = {key: [side[key].count if key in side else 0 for side in (found, claimed)] for key in keys}
    return [
        f"{key}: the archive's files have {records:,} records, and its commits {wanted:,}"
        for key, (records, wanted) in counts.items()
        if records != wanted
    ]
