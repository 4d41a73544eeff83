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
)
"""The errors in the content of a file. Another error around them names the file."""


def names_damage(text: str) -> bool:
    """Whether the text of an error and of all its causes is about a missing or damaged file of anybody."""
    return not ENVIRONMENT.search(text) and bool(OF_FILE.search(text) or OF_CONTENT.search(text))


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
    is_content = OF_CONTENT.search(text) is not None
    lines = [line for line in text.splitlines() if is_content or OF_FILE.search(line)]
    spellings = (spelling for line in lines for spelling in (line, unquote(line)))
    return next((found[0] for each in spellings if (found := below.search(each))), None)
