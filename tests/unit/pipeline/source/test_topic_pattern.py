"""Java's regular expressions for names of topics, in Python."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.source.topic_pattern import BadPattern, compiled, whole


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("ord.*", ["ord", "orders"], ["x-ord", "or"]),
        ("a|b", ["a", "b"], ["ab", "xb", "ax"]),
        (r"r\p{Alpha}+", ["rd", "rDx"], ["r", "r1"]),
        (r"\p{Lu}\P{Digit}\pN", ["Aa1", "A.1"], ["a.1", "A11"]),
        (r"[\p{Alpha}_-]+", ["a_b-c"], ["a1", "a.b"]),
        (r"[^\p{Punct}]+", ["a1"], ["a-b", "a_b", "a.b"]),
        (r"\Qa.b\E.", ["a.bx"], ["aXbx"]),
        ("(?i)ord(ers)?", ["ORD", "Orders"], ["xord"]),
        ("a(?i)b|c", ["aB", "C"], ["Ab", "aC"]),
        ("(x(?i)y)z", ["xYz"], ["xYZ", "XYz"]),
        (r"(?<part>a+)-(?<other>b)", ["aa-b"], ["aab"]),
        (r"^a\z", ["a"], ["ab"]),
        (r"a(?<!b)\Z", ["a"], ["ba"]),
        (r"[a&b(?i)]\(?", ["a", "&", "i", ")"], ["A("]),
    ],
)
def test_a_pattern_matches_whole_names_as_in_java(pattern: str, names: list[str], others: list[str]) -> None:
    found = compiled(whole(pattern))
    assert [each for each in [*names, *others] if found.search(each)] == names


def test_a_pattern_is_found_within_names_unless_it_is_for_whole_ones() -> None:
    assert compiled("ord").search("x-ord-y")
    assert not compiled(whole("ord")).search("x-ord-y")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("r(", r"is no regular expression: missing \)"),
        ("a)", "is no regular expression: unbalanced"),
        ("(?i)a)", "is no regular expression: unbalanced"),
        (r"\p{IsGreek}", r"the class of characters \\p{IsGreek} is not supported: write it as \[...\]"),
        ("[a-z&&[^b]]", "an intersection of classes"),
        ("[a[b]]", "a class inside of brackets"),
        (r"[\P{Alpha}]", r"write it as \[\^...\]"),
    ],
)
def test_a_pattern_that_has_no_equal_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(BadPattern, match=message):
        compiled(pattern)
