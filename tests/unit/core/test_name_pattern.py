"""Tests of regular expressions over names: the syntax of RE2, the patterns that Kafka refuses, and the
limits on cost.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random

import pytest

from pykbroker.core import name_pattern
from pykbroker.core.errors import ApiError
from pykbroker.core.name_pattern import (
    NAME_STEPS,
    PATTERN_CHARS_MAX,
    REPEATS_MAX,
    SHARE_STEPS_MAX,
    UNICODE_CLASSES_MAX,
    compiled,
)
from wire.error_codes import ErrorCode

NAMES = ["", *("".join(chars) for length in range(1, 5) for chars in product("ab-", repeat=length)), "A", "a.b", "ab_1"]
PARTS = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "(a|b)",
    "(?:ab)",
    "a*",
    "b+",
    "(ab)?",
    "a{2}",
    "a{1,2}",
    "b{0,}",
    "-",
    "^",
    "$",
    r"\.",
    r"\w",
    r"\d",
    r"\S",
    "[a-b-]",
    "(a*)*",
    "(|a)",
    "a*?",
    "[]a]",
    r"[\w]",
    r"\b",
]
KAFKA = Path(__file__).parents[2] / "data" / "patterns" / "re2j-1.8.json"


def why_not(pattern: str) -> str:
    with pytest.raises(ApiError) as refused:
        compiled(pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    return str(refused.value)


def test_a_pattern_matches_whole_names_as_in_python() -> None:
    for seed in range(600):
        draw = Random(seed)
        pattern = "".join(draw.choices(PARTS, k=draw.randrange(4)))
        if draw.random() < 0.3:
            pattern += "|" + draw.choice(PARTS)
        expected = [name for name in NAMES if re.fullmatch(pattern.replace("$", r"\Z"), name, re.ASCII)]
        assert compiled(pattern).matching(NAMES) == expected, pattern


def test_patterns_are_accepted_refused_and_matched_as_by_kafka() -> None:
    table = json.loads(KAFKA.read_text())
    for pattern, expected in table["patterns"].items():
        if isinstance(expected, str):
            assert (
                why_not(pattern) == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {expected}."
            )
        else:
            assert compiled(pattern).matching(table["names"]) == expected, pattern


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"\pL{2,}", ["Ab", "жук"]),
        (r"\p{Greek}", ["π"]),
        (r"\PL+", ["-."]),
        (r"\bAb\b", ["Ab"]),
        ("(?i)ЖУК", ["жук"]),
        ("...", ["жук"]),
        ("", []),
    ],
)
def test_unicode_classes_and_word_boundaries_match_as_in_re2(pattern: str, found: list[str]) -> None:
    assert compiled(pattern).matching(["Ab", "-.", "жук", "π"]) == found


def test_the_error_names_an_unmatched_parenthesis() -> None:
    assert why_not("a)").endswith(": unexpected )."), "the message names the parenthesis, unlike re2j's internal error"


@pytest.mark.parametrize("pattern", ["(.?){1000}" * 2, r"\pL{100}", "((a{100}){100}){100}"])
def test_a_pattern_whose_program_is_too_large_is_refused(pattern: str) -> None:
    why_not(pattern)


def test_the_length_of_a_pattern_is_limited() -> None:
    assert compiled("a" * (PATTERN_CHARS_MAX - 1)).matching(["a"]) == []
    assert compiled("a" * PATTERN_CHARS_MAX).matching(["a" * PATTERN_CHARS_MAX]) == ["a" * PATTERN_CHARS_MAX]
    assert "longer than 5000 characters" in why_not("a" * (PATTERN_CHARS_MAX + 1))


def test_the_number_of_unicode_classes_is_limited() -> None:
    for count in (UNICODE_CLASSES_MAX - 1, UNICODE_CLASSES_MAX):
        assert compiled(r"\pL*" * (count - 1) + r"\PN*").matching(["ж", "1"]) == ["ж"]
    assert "more than 50 Unicode classes" in why_not(r"\pL*" * UNICODE_CLASSES_MAX + r"\PN*")


def test_names_are_split_into_groups_of_limited_cost() -> None:
    pattern = compiled("a*")
    name = "a" * 100
    most = SHARE_STEPS_MAX // pattern.steps(name)
    for count, expected in ((0, []), (1, [1]), (most - 1, [most - 1]), (most, [most]), (most + 1, [most, 1])):
        shares = list(pattern.shares([name] * count))
        assert [len(share) for share in shares] == expected
    assert pattern.steps("") == NAME_STEPS
    assert pattern.steps("ж") - NAME_STEPS == (pattern.steps("a") - NAME_STEPS) * 2, (
        "the cost of a name grows with its UTF-8 bytes"
    )


def test_a_name_above_the_cost_limit_is_alone_in_its_group() -> None:
    pattern = compiled("(.?){1000}")
    assert pattern.steps("a" * 32_767) > SHARE_STEPS_MAX
    assert list(pattern.shares(["a", "b" * 32_767, "c", "d"])) == [["a"], ["b" * 32_767], ["c", "d"]]


def test_a_group_of_names_costs_no_more_than_the_limit() -> None:
    names = [f"{number:05}{'ab' * 122}" for number in range(2000)]
    for pattern in ("((.*a|.*b){20}){20}", "(.?){1000}", "(a?){500}a{500}"):
        shares = list(compiled(pattern).shares(names))
        assert [name for share in shares for name in share] == names
        assert all(sum(map(compiled(pattern).steps, share)) <= SHARE_STEPS_MAX for share in shares)


def test_a_broker_without_patterns_does_not_import_re2() -> None:
    asked = (
        "import sys, pykbroker.broker, pykbroker.core.name_pattern as one; before = 're2' in sys.modules; "
        "one.compiled('a'); print(before, 're2' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=30)
    assert ran.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("module", [None, object()], ids=["nothing", "pyre2"])
def test_without_google_re2_every_pattern_is_refused(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    def load(name: str) -> object:
        if module is None:
            raise ModuleNotFoundError(name)
        return module

    monkeypatch.setattr(name_pattern, "import_module", load)
    assert why_not("not-compiled-before").endswith("expression: the broker lacks the package google-re2.")


def test_a_refused_pattern_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    why_not("(")
    why_not("(.?){1000}" * 3)
    assert capfd.readouterr() == ("", "")


def test_the_cache_of_compiled_patterns_is_limited() -> None:
    for number in range(name_pattern.PATTERNS_MAX + 1):
        compiled(f"kept-{number}")
    assert compiled.cache_info().currsize == name_pattern.PATTERNS_MAX


@pytest.mark.parametrize(("last", "fits"), [(999, True), (1000, True), (1001, False)])
def test_the_total_of_repetition_counts_is_computed_before_compilation(last: int, fits: bool) -> None:
    parts = ["(?:){0,500}", "(?:){500}", "(?:){999,}", "(?:){1}", *["(?:){1000}"] * (REPEATS_MAX // 1000 - 3)]
    pattern = "".join(parts) + ("(?:){1000}(?:){1}" if last > 1000 else f"(?:){{{last}}}")
    if fits:
        assert compiled(pattern).matching(["", "a"]) == [""]
    else:
        assert why_not(pattern).endswith("is not a valid regular expression: too large.")


def test_too_many_repetitions_are_refused_before_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_pattern, "import_module", lambda name: pytest.fail("RE2 takes 0.3 s for this"))
    assert why_not("a{0,1000}" * 555).endswith("is not a valid regular expression: too large.")
