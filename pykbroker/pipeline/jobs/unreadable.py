"""The errors of Spark and Iceberg about a file of an archive that is missing or damaged, which is a loss.

All else says nothing about the archive: brokers or a store that do not answer, a full disk, or too many open files.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlparse

ENVIRONMENT = re.compile(r"\((?:Too many open files|Permission denied)[^)\n]*\)")
"""The reasons for which Java calls an existing file not found."""
OF_FILE = re.compile(
    r"FAILED_READ_FILE\.FILE_NOT_EXIST|\[PATH_NOT_FOUND\]|java\.io\.FileNotFoundException: "
    r"|iceberg\.exceptions\.NotFoundException: |is not a Parquet file|hadoop\.fs\.ChecksumException: "
)
"""The errors that name the file in the same line."""
OF_CONTENT = re.compile(
    r"parquet\.[a-z.]*Parquet(?:Decoding|Encoding|Runtime)Exception|[Cc]an ?not read class org\.apache\.parquet"
    r"|could not decode|FAILED_TO_UNCOMPRESS|zstd\.ZstdIOException|corrupted file: "
    r"|parquet\.io\.InvalidRecordException|could not read page|Expected [0-9]+ values in column chunk|can only annotate"
)
"""The errors in the content of a file. Another error around them names the file."""
READING, CAUSE = "[FAILED_READ_FILE.NO_HINT]", re.compile(r"^Caused by: (.*)$", re.MULTILINE)
"""The error of Spark around every other one that it finds while it reads a file, and the causes of an error."""
OF_DECODER = re.compile(
    r"java\.lang\.(?:NullPointer|(?:Array|String)?IndexOutOfBounds|NegativeArraySize)Exception\b"
    r"|java\.lang\.ClassCastException: (?:optional|required|repeated) "
    r"|java\.io\.EOFException(?:: Cannot seek after EOF)?$"
)
"""The last causes with which a decoder fails about content that it does not check."""


def names_damage(text: str) -> bool:
    """Whether the text of an error and of all its causes is about a missing or damaged file of anybody."""
    return not ENVIRONMENT.search(text) and (OF_FILE.search(text) is not None or _is_of_content(text))


def _is_of_content(text: str) -> bool:
    """Whether the text of an error and of all its causes is about the content of a file."""
    if OF_CONTENT.search(text):
        return True
    causes = CAUSE.findall(text) if READING in text else []
    return bool(causes) and OF_DECODER.match(causes[-1]) is not None


def unreadable_file(text: str, place: str) -> str | None:
    """Return the path of a file below a place that is missing or damaged by the text of an error, or None.

    `place` is a directory, or the URI of one. `text` is that of the error and of all its causes.
    """
    if not names_damage(text):
        return None
    path = place if place.startswith("/") else unquote(urlparse(place).path)
    below = re.compile(
        rf"(?:(?<![\w./%-])|(?<=://)|(?<=://)[^/\s]+){re.escape(path.rstrip('/'))}/[^\s`'\",]*[^\s`'\",.]"
    )
    is_content = _is_of_content(text)
    lines = [line for line in text.splitlines() if is_content or OF_FILE.search(line)]
    spellings = (spelling for line in lines for spelling in (line, unquote(line)))
    return next((found[0] for each in spellings if (found := below.search(each))), None)
