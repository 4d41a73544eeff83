"""Regular expressions over names, beside Python's own engine."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.name_pattern import matching
from wire.error_codes import ErrorCode

NAMES = ["", *("".join(chars) for length in range(1, 5) for chars in product("ab-", repeat=length)), "A", "a.b", "ab_1"]
PARTS = ["a", "b", ".",
         "[ab]", "[^a]", "(a|b)", "(?:ab)", "a*", "b+", "(ab)?", "a{2}", "a{1,2}", "b{0,}", "-", "^", "$",
         r"\.", r"\w", r"\d", r"\S", "[a-b-]", "(a*)*", "(|a)", "a*?", "[]a]", r"[\w]"]


def test_it_matches_what_python_matches() -> None:
    for seed in range(600):
        draw = Random(seed)
        pattern = "".join(draw.choices(PARTS, k=draw.randrange(4)))
        if draw.random() < 0.3:
            pattern += "|" + draw.choice(PARTS)
        expected = sorted(name for name in NAMES if re.fullmatch(pattern.replace("$", r"\Z"), name, re.ASCII))
        assert matching(pattern, NAMES) == expected, pattern


@pytest.mark.parametrize(("pattern", "found"), [
    ("(?i)ORDERS-.*", ["Orders-1", "orders-2"]), ("orders-[0-9]+", ["orders-2"]), (r"\Aorders.*\z", ["orders-2"]),
    (".*", ["Orders-1", "orders-2", "x"]), ("orders", []), ("(?P<name>x)", ["x"]), ("", [])])
def test_patterns_as_people_write_them(pattern: str, found: list[str]) -> None:
    assert matching(pattern, ["x", "orders-2", "Orders-1"]) == found


@pytest.mark.parametrize("pattern", [
    "(", ")", "a)", "[", "[a", "*", "a|*", r"\1",
    "(?=a)", "(?<=a)", "(?<!a)", "a{2,1}", "a{1001}", "[b-a]", "\\", "(?x)a",
    "a**", "a++", "a*+", "a{2}{3}", "a*??", "x{1,1000}{1,1000}", "(" * 500 + ")" * 500, "(?:" * 101 + ")" * 101,
    "(?P<n", "a" * 1001, "((a{100}){100}){100}", r"\E", r"\pL", r"\b",
    "[[:foo:]]", "[[:alpha:]", "[[:^]]", r"\x4", r"\x{}", r"\x{4g}", r"\x{41", r"\x{110000}", r"[a-\d]",
    r"[\x42-\x41]", r"\7", r"\8", r"[\1]", r"[\101-\60]",
    "{1}", "a|{2}b", "({1,2})", "(?i)?", "(?i){2}", "(?P<>a)", "(?<a-b>a)", "(?P<n>a)(?P<n>b)"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as refused:
        matching(pattern, ["a"])
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(("pattern", "found"), [
    ("[[:alpha:]]+", ["Ab"]), ("[^[:alpha:]_]+", ["-.", "12"]), ("[[:^digit:]]+", ["-.", "A_", "Ab"]),
    ("[[:upper:][:punct:]]+", ["-.", "A_"]), ("(?i)[[:lower:]]+", ["Ab"]), ("[[:word:]]+", ["12", "A_", "Ab"]),
    (r"\Q-.\E", ["-."]), (r"\Q-.", ["-."]), (r"A\Qb\E*", ["Ab"]), (r"\Q\EAb", ["Ab"]), (r"(\QA_\E|12)", ["12", "A_"]),
    (r"\x41.", ["A_", "Ab"]), (r"\x{41}\x{5f}", ["A_"]), (r"[\x41-\x5A]b", ["Ab"]), (r"[\t\-\.]+", ["-."]),
    (r"\101.", ["A_", "Ab"]), (r"[\60-\62]{2}", ["12"]), (r"\0612|\0", ["12"]), ("(?P<n>A)(?<m>b)", ["Ab"])])
def test_classes_by_name_and_characters_by_number(pattern: str, found: list[str]) -> None:
    assert matching(pattern, ["Ab", "A_", "12", "-."]) == found


def test_groups_may_stand_in_groups() -> None:
    assert matching("(" * 100 + "a" + ")*" * 100, ["a", "aa", "b"]) == ["a", "aa"]
    assert matching("(a)" * 300 + "?" * 1, ["a" * 300, "a" * 299, "a" * 298]) == ["a" * 299, "a" * 300]
    assert matching("(?i)" * 200 + "a", ["A"]) == ["A"]


def test_a_pattern_that_makes_other_engines_try_for_ever() -> None:
    assert matching("(a+)+$", ["a" * 200 + "!"]) == []
    with pytest.raises(ApiError):
        matching("(a?){500}a{500}", ["a" * 249 + str(number) for number in range(1000)])
