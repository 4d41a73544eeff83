"""Lines as records: keys by a delimiter, and objects in JSON with clear errors."""

from __future__ import annotations

import pytest

from pykbroker.cli.records.record_lines import InvalidLine, ParsedRecord, json_record, keyed_columns


def test_a_line_is_split_at_the_first_delimiter() -> None:
    lines = [b"a:b:c", b"no key", b":empty key", b"empty value:"]
    assert keyed_columns(lines, b":") == ([b"a", None, b"", b"empty value"], [b"b:c", b"no key", b"empty key", b""])


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b"{}", ParsedRecord(None)),
        (b'{"value": "text", "key": "k"}', ParsedRecord(b"text", b"k")),
        (b'{"value": null}', ParsedRecord(None)),
        (b'{"value": {"a": [1, "\xc3\xa9"]}}', ParsedRecord(b'{"a":[1,"\xc3\xa9"]}')),
        (b'{"value": 5, "key": true}', ParsedRecord(b"5", b"true")),
        (b'{"value_base64": "AAE=", "key_base64": ""}', ParsedRecord(b"\0\1", b"")),
        (b'{"headers": {"a": "1", "b": null}}', ParsedRecord(None, None, (("a", b"1"), ("b", None)))),
        (b'{"headers": [["a", "1"], ["a", 2]]}', ParsedRecord(None, None, (("a", b"1"), ("a", b"2")))),
        (b'{"headers_base64": [["a", "/w=="], ["b", null]]}', ParsedRecord(None, None, (("a", b"\xff"), ("b", None)))),
        (b'{"topic": "a", "offset": 5, "value": "v"}', ParsedRecord(b"v")),
        (b'{"partition": 3, "timestamp": 0}', ParsedRecord(None, None, (), 3, 0)),
    ],
)
def test_an_object_is_a_record(line: bytes, record: ParsedRecord) -> None:
    assert json_record(line) == record


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "no JSON: "),
        (b"{", "no JSON: "),
        (b"[1]", "no JSON object, such as"),
        (b'{"vlaue": 1}', "unknown field 'vlaue': the fields are key, value, "),
        (b'{"value_base64": "?"}', "value_base64 is no base64"),
        (b'{"value_base64": 5}', "value_base64 is no base64"),
        (b'{"headers": [1]}', "headers must be an object, or a list of pairs"),
        (b'{"headers": [[1, "a"]]}', "headers must be an object, or a list of pairs"),
        (b'{"headers": "a"}', "headers must be an object, or a list of pairs"),
        (b'{"headers_base64": [["a", "?"]]}', "headers_base64 has a value that is no base64"),
        (b'{"partition": "1"}', 'partition is "1", but must be an integer'),
        (b'{"timestamp": true}', "timestamp is true, but must be an integer"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes, text: str) -> None:
    with pytest.raises(InvalidLine) as error:
        json_record(line)
    assert text in str(error.value)
