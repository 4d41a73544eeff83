"""Regular expressions over topic names, beside Python's own engine."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer.topic_pattern import matching
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
    "(?P<n", "a" * 1001, "((a{100}){100}){100}", r"\Q"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as refused:
        matching(pattern, ["a"])
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_makes_other_engines_try_for_ever() -> None:
    assert matching("(a+)+$", ["a" * 200 + "!"]) == []
    with pytest.raises(ApiError):
        matching("(a?){500}a{500}", ["a" * 249 + str(number) for number in range(1000)])
