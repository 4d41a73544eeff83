"""The error of a record that cannot be decoded."""

from __future__ import annotations

TEXT_CHARS_MAX = 1000
"""The length to which the reason of a bad record is cut, since some libraries quote whole schemas."""


class BadRecord(Exception):
    """The error of a record that cannot be decoded. Its text is the reason."""


def reason(error: Exception) -> str:
    """Return the text of an error, which is never empty and not too long for a header."""
    text = str(error) or type(error).__name__
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."
