"""The kinds of damage of an archive: each one is named by `verify`, in both formats, also without brokers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.iceberg import table_name
from pykbroker.pipeline.jobs.table_batches import SUMS, loaded
from tests.interop.pipeline.archive_jobs import Archives, edit
from tests.interop.pipeline.both_formats import BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"
FIRST_PAGE = 40
"""A byte of the first page of a Parquet file, which has keys."""
HEAD = "| damage | an archive of Parquet files | an Iceberg table |"
UNREADABLE = "a file cannot be read"
STOPPED = "the job stops"
NUMBERS = "other numbers"
CONTENT = "other records"
DAY = "another day"
SIDE = "nothing: the table does not have it"
SIZE = "a file of another size"
MISSING = "a file is missing"
UNNAMED = "a file without commit"
WORDS = {
    "cannot be read": UNREADABLE,
    "records, and its commits": NUMBERS,
    "its commits name none": NUMBERS,
    "its commits only from": NUMBERS,
    "other records than its commits": CONTENT,
    "under the day": DAY,
    "is missing": MISSING,
    "bytes in place of": SIZE,
    "is named by no commit": UNNAMED,
}
"""The names of losses on the page, by words that they have."""

pytestmark = spark_marks()


class Place(NamedTuple):
    """An archive that is damaged: its directory, its data files, and its name in SQL, if it is a table."""

    archives: Archives
    directory: Path
    table: str = ""

    def files(self) -> list[Path]:
        """Return the data files that have records of partition 0, sorted."""
        return sorted(self.directory.rglob("*.parquet"))

    def sql(self, text: str) -> None:
        """Run a statement about the table."""
        self.archives.spark.sql(text.format(table=self.table))


Damage = Callable[[Place], object]
Rows = list[dict[str, Any]]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[FIRST_PAGE] ^= 1
    path.write_bytes(content)


def edited(change: Callable[[Rows], Rows]) -> Damage:
    return lambda place: edit(place.files()[0], change)


def moved(part: str, name: str) -> Damage:
    """Return the damage that moves a file to another directory of a day or a topic."""

    def move(place: Place) -> None:
        old = place.files()[0]
        new = Path(*(f"{part}={name}" if each.startswith(f"{part}=") else each for each in old.parts))
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)

    return move


def with_value(row: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**row, **values}


def commit_file(place: Place, index: int) -> Path:
    return sorted((place.directory / "_pykbroker" / "commits").glob("*.json"))[index]


def removed(*paths: Path) -> None:
    for path in paths:
        path.unlink()


def sums(place: Place, text: str | None) -> None:
    changes = loaded(place.archives.spark, place.table).updateProperties()
    (changes.remove(SUMS) if text is None else changes.set(SUMS, text)).commit()


def rolled_back(place: Place) -> None:
    table = loaded(place.archives.spark, place.table)
    table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit()


FILES: dict[str, Damage] = {
    "a file is removed": lambda place: place.files()[0].unlink(),
    "a file is renamed": lambda place: place.files()[0].rename(place.files()[0].with_name("other.parquet")),
    "a file is cut": lambda place: place.files()[0].write_bytes(place.files()[0].read_bytes()[:-50]),
    "a byte of a file is changed": lambda place: flipped(place.files()[0]),
    "a file is doubled": lambda place: shutil.copy(place.files()[0], place.files()[0].with_name("more.parquet")),
    "a file is moved to another day": moved("date", "2001-01-01"),
    "a file is moved to another topic": moved("topic", "other"),
}
PARQUET: dict[str, Damage] = {
    **FILES,
    "records get another partition": edited(lambda rows: [with_value(row, partition=7) for row in rows]),
    "a row is changed": edited(lambda rows: [with_value(rows[0], value=b"forged"), *rows[1:]]),
    "a row is removed": edited(lambda rows: rows[1:]),
    "a row is forged": edited(lambda rows: [*rows, with_value(rows[0], offset=90)]),
    "a row takes the place of another one": edited(lambda rows: [rows[1], *rows[1:]]),
    "the commit of a batch is removed": lambda place: commit_file(place, 0).unlink(),
    "the commit of a batch is removed with its files": lambda place: removed(commit_file(place, 0), place.files()[0]),
    "the commit of the last batch is removed": lambda place: commit_file(place, 1).unlink(),
    "the commit of a batch is emptied": lambda place: commit_file(place, 1).write_bytes(b""),
    "the commit of a batch is an older one": lambda place: shutil.copy(commit_file(place, 0), commit_file(place, 1)),
}
FIRST = "partition = 0 and offset = 1"
ICEBERG: dict[str, Damage] = {
    **FILES,
    "records get another partition": lambda place: place.sql("update {table} set partition = 7 where partition = 0"),
    "a row is changed": lambda place: place.sql(f"update {{table}} set value = binary('forged') where {FIRST}"),
    "a row is removed": lambda place: place.sql(f"delete from {{table}} where {FIRST}"),
    "a row is forged": lambda place: place.sql(
        "insert into {table} select key, value, topic, partition, 90L, timestamp, timestampType, headers, "
        "timestamp_ms, date from {table} where " + FIRST
    ),
    "a row takes the place of another one": lambda place: place.sql("update {table} set offset = 2L where " + FIRST),
    "the commit of a batch is removed": lambda place: sums(place, None),
    "the commit of a batch is removed with its files": lambda place: place.sql(
        "delete from {table} where partition = 0 and offset < 10"
    ),
    "the commit of the last batch is removed": rolled_back,
    "the commit of a batch is emptied": lambda place: sums(place, ""),
    "the commit of a batch is an older one": rolled_back,
}


def seen(place: Place) -> str:
    """Return what `verify` says without brokers, in the words of the page."""
    try:
        losses = place.archives.prove(
            place.directory.relative_to(place.archives.directory).as_posix(), kind(place)
        ).losses
    except PipelineError:
        return STOPPED
    return ", ".join(dict.fromkeys(name for text, name in WORDS.items() for loss in losses if text in loss)) or SIDE


def seen_after(place: Place, damage: Damage) -> str:
    """Return what `verify` says after a damage, and put the directory of the archive back to what it was."""
    kept = place.directory.with_name("kept")
    shutil.copytree(place.directory, kept)
    damage(place)
    found = seen(place)
    shutil.rmtree(place.directory)
    kept.rename(place.directory)
    return found


def kind(place: Place) -> str:
    return "iceberg" if place.table else "parquet"


def test_each_damage_is_seen_without_brokers(formats: BothFormats, tmp_path: Path) -> None:
    archives, topic = Archives(formats.spark, formats.bootstrap, tmp_path), formats.topic()
    source = archives.source(topic)
    places = [Place(archives, tmp_path / "lake"), Place(archives, tmp_path / "tables" / "lake")]
    places[1] = places[1]._replace(table=table_name(formats.spark, str(places[1].directory)))
    for batch in range(2):
        formats.feed(topic, numbers(batch * 10, batch * 10 + 10), 0, START_MS + batch * DAY_MS)
        formats.at_once(lambda place: archives.archive(source, str(place.directory), format=kind(place)), places)
    assert [seen(place) for place in places] == [SIDE] * 2
    files, table = places

    def of_files(name: str) -> str:
        copy = files._replace(directory=tmp_path / f"lake-{name}")
        shutil.copytree(files.directory, copy.directory)
        PARQUET[name](copy)
        return seen(copy)

    def of_table() -> list[str]:
        """Damage the table in all ways, one after another, since its files are at this place only."""
        return [seen_after(table, ICEBERG[name]) for name in PARQUET]

    said, *rest = formats.at_once(lambda judge: judge(), [of_table, *(partial(of_files, name) for name in PARQUET)])
    found = dict(zip(PARQUET, zip(rest, said, strict=True), strict=True))
    rows = [f"| {name} | {one} | {two} |" for name, (one, two) in found.items()]
    lines = PAGE.read_text().splitlines()
    begin = lines.index(HEAD) + 2
    assert lines[begin : begin + len(rows)] == rows, "\n".join(["the table of the page is:", *rows])
