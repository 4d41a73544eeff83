"""Regular expressions over names of topics and transactional ids, in RE2's syntax.

Python's own engine would do for honest patterns; others make it try for ever. So a pattern becomes the program of an
automaton. What no automaton can do (back references, looking around) RE2 refuses, too. A pattern must match the whole
name.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from functools import lru_cache

from pykbroker.core.automaton import CHAR, END, MATCH, SPLIT, START, Automaton, Instruction, Test
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

PATTERN_CHARS_MAX = 1000
PROGRAM_STATES_MAX = 2000
REPEATS_MAX = 1000
NESTING_MAX = 100
"""Groups within groups. Each costs a few calls within calls, of which Python has no more than a thousand."""
STEPS_MAX = 100_000
"""States followed for one pattern over all names: past these it is too expensive to answer."""
CODE_POINT_MAX = 0x10FFFF

CLASSES: dict[str, Test] = {
    "d": lambda char: char in "0123456789",
    "w": lambda char: char.isascii() and (char.isalnum() or char == "_"),
    "s": lambda char: char in "\t\n\f\r ",
}
ASCII = "".join(map(chr, range(128)))
NAMED = {
    "alnum": string.ascii_letters + string.digits, "alpha": string.ascii_letters, "ascii": ASCII, "blank": " \t",
    "cntrl": ASCII[:32] + ASCII[127], "digit": string.digits, "graph": ASCII[33:127], "lower": string.ascii_lowercase,
    "print": ASCII[32:127], "punct": string.punctuation, "space": string.whitespace, "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_", "xdigit": string.hexdigits,
}  # fmt: skip
"""The characters of a class within a class, as in `[[:alpha:]-]`."""
CONTROL = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "v": "\v", "a": "\a"}
CODED = frozenset((*CONTROL, "x", *string.octdigits))
"""What stands behind the backslash of an escape that means one character."""
OCTAL_DIGITS_MAX = 3


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in order. ApiError INVALID_REGULAR_EXPRESSION."""
    automaton = Automaton(compiled(pattern))
    found = []
    for name in sorted(names):
        if automaton.matches(name):
            found.append(name)
        if automaton.steps > STEPS_MAX:
            raise refused(pattern, "too expensive for the names there are")
    return found


def refused(pattern: str, why: str) -> ApiError:
    """It is none, or one that cannot be had; the words are for ConsumerGroupHeartbeat, as other answers have none."""
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex `{pattern[:100]}` is not a valid "
                    f"regular expression: {why}.")


@lru_cache(100)
def compiled(pattern: str) -> tuple[Instruction, ...]:
    """The program of a pattern. ApiError INVALID_REGULAR_EXPRESSION."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise refused(pattern, f"longer than {PATTERN_CHARS_MAX} characters")
    parser = _Parser(pattern)
    node = parser.alternatives()
    if parser.more:
        raise refused(pattern, "unexpected )")
    program: list[Instruction] = []
    node(program)
    program.append((MATCH, None, ()))
    return tuple(program)


Node = Callable[[list[Instruction]], None]
"""Appends to a program the states that follow it through, and then go on with what is appended next."""


class _Parser:
    """Recursive descent; every node counts its states, so that nothing grows without bound."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.fold, self.depth = pattern, 0, False, 0
        self.names: set[str] = set()

    @property
    def more(self) -> bool:
        return self.at < len(self.pattern)

    def fail(self, why: str) -> ApiError:
        return refused(self.pattern, why)

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def next(self) -> str:
        if not self.more:
            raise self.fail("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self) -> Node:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else self.either(branches)

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.more and self.pattern[self.at] not in "|)":
            if self.take("\\Q"):
                parts += self.quoted()
            else:
                parts.append(self.repeated(self.atom()))
        return lambda program: _each(parts, program)

    def quoted(self) -> list[Node]:
        """What stands before the next \\E is meant as it stands; what repeats it repeats its last character."""
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at:end if end >= 0 else None]
        self.at += len(text) + (2 if end >= 0 else 0)
        parts = [self.single(self.literal(char)) for char in text]
        return [*parts[:-1], self.repeated(parts[-1])] if parts else []

    def either(self, branches: list[Node]) -> Node:
        def build(program: list[Instruction]) -> None:
            ends = []
            for branch in branches[:-1]:
                split = self.add(program, (SPLIT, None, ()))
                branch(program)
                ends.append(self.add(program, (SPLIT, None, ())))
                program[split] = (SPLIT, None, (split + 1, len(program)))
            branches[-1](program)
            for end in ends:
                program[end] = (SPLIT, None, (len(program),))
        return build

    def repeated(self, node: Node) -> Node:
        bounds = self.bounds()
        if bounds is None:
            return node
        self.take("?")  # lazy ones match the same names
        if self.bounds() is not None:
            raise self.fail("a repetition is repeated")
        return self.repeat(node, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        end = self.pattern.find("}", self.at)
        if not self.pattern.startswith("{", self.at) or end < 0:
            return None
        least, comma, most = self.pattern[self.at + 1:end].partition(",")
        if not least.isdigit() or (most and not most.isdigit()):
            return None
        self.at = end + 1
        low, high = int(least), (int(most) if most else None if comma else int(least))
        if max(low, high or 0) > REPEATS_MAX or (high is not None and high < low):
            raise self.fail("bad repetition")
        return low, high

    def repeat(self, node: Node, least: int, most: int | None) -> Node:
        def build(program: list[Instruction]) -> None:
            for _ in range(least):
                node(program)
            splits = []
            if most is None:
                split = self.add(program, (SPLIT, None, ()))
                node(program)
                self.add(program, (SPLIT, None, (split,)))
                program[split] = (SPLIT, None, (split + 1, len(program)))
            for _ in range((most or 0) - least if most is not None else 0):
                splits.append(self.add(program, (SPLIT, None, ())))
                node(program)
            for split in splits:
                program[split] = (SPLIT, None, (split + 1, len(program)))
        return build

    def atom(self) -> Node:
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return self.single(self.char_class())
        if char == ".":
            return self.single(lambda one: one != "\n")
        if char in "^$":
            return self.anchor(START if char == "^" else END)
        if char == "\\":
            return self.escape()
        self.at -= 1
        if self.bounds() is not None:
            raise self.fail(f"nothing to repeat before {char}")
        self.at += 1
        return self.single(self.literal(char))

    def group(self) -> Node:
        fold = self.fold
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise self.fail("too many groups within groups")
        if self.take("?") and self.only_flags():
            self.depth -= 1
            if self.bounds() is not None:
                raise self.fail("nothing to repeat but flags")
            return lambda program: None
        node = self.alternatives()
        if not self.take(")"):
            raise self.fail("missing )")
        self.fold = fold
        self.depth -= 1
        return node

    def only_flags(self) -> bool:
        """Read a name or flags; whether these are the whole group, and so hold for what follows it."""
        if self.take("P<") or self.take("<"):
            if self.pattern[self.at:self.at + 1] in ("=", "!"):
                raise self.fail("looking around")
            self.named_group()
            return False
        if self.take(":"):
            return False
        flags = ""
        while (char := self.next()) not in ":)":
            flags += char
        if set(flags) - set("imsU-"):
            raise self.fail(f"(?{flags}")
        self.fold = "i" in flags.partition("-")[0]
        return char == ")"

    def named_group(self) -> None:
        """The name of a group, which no other one has."""
        name = ""
        while (char := self.next()) != ">":
            name += char
        if not name or not all(map(CLASSES["w"], name)) or name in self.names:
            raise self.fail(f"bad name of a group: {name}")
        self.names.add(name)

    def escape(self) -> Node:
        char = self.next()
        if char in "Az":
            return self.anchor(START if char == "A" else END)
        return self.single(self.escaped(char))

    def escaped(self, char: str) -> Test:
        test = CLASSES.get(char.lower())
        if test is not None:
            return test if char.islower() else lambda one: not test(one)
        if char in CODED:
            return self.literal(self.control(char))
        if char.isalnum():
            raise self.fail(f"\\{char}")
        return self.literal(char)

    def control(self, char: str) -> str:
        """The character that an escape stands for: one of the table, or by its number, as in \\x41, \\x{41}, \\101."""
        if char in CONTROL:
            return CONTROL[char]
        if char in string.octdigits:
            return self.octal(char)
        braced = self.take("{")
        digits = self.pattern[self.at:self.pattern.find("}", self.at) if braced else self.at + 2]
        self.at += len(digits)
        wrong = not digits or set(digits) - set(string.hexdigits) or (not braced and len(digits) < 2)
        if wrong or (braced and not self.take("}")) or int(digits, 16) > CODE_POINT_MAX:
            raise self.fail("bad number of a character")
        return chr(int(digits, 16))

    def octal(self, digits: str) -> str:
        """As many digits as there are, after the first; one alone that is not 0 would be a back reference."""
        first = digits
        while len(digits) < OCTAL_DIGITS_MAX and self.more and self.pattern[self.at] in string.octdigits:
            digits += self.next()
        if digits == first != "0":
            raise self.fail(f"\\{first}")
        return chr(int(digits, 8))

    def bound(self, char: str) -> str:
        """The end of a range, which no class can be."""
        if char not in CODED:
            raise self.fail(f"bad range to \\{char}")
        return self.control(char)

    def named(self) -> Test:
        """A class within a class, from behind its colon on."""
        negated = self.take("^")
        name, colon, _ = self.pattern[self.at:].partition(":]")
        if not colon or name not in NAMED:
            raise self.fail("no such class")
        self.at += len(name) + len(colon)
        chars = set(NAMED[name])
        if self.fold:
            chars |= set(NAMED[name].swapcase())
        return lambda one: (one in chars) != negated

    def char_class(self) -> Test:
        negated, tests = self.take("^"), list[Test]()
        while not tests or not self.take("]"):
            tests.append(self.class_member())
        return lambda one: any(test(one) for test in tests) != negated

    def class_member(self) -> Test:
        """A character, a range of them, or another class."""
        low = self.next()
        if low == "[" and self.take(":"):
            return self.named()
        if low == "\\":
            low = self.next()
            if low.isalnum() and low not in CODED:
                return self.escaped(low)
            low = self.control(low) if low.isalnum() else low
        if self.pattern[self.at:self.at + 1] != "-" or self.pattern[self.at + 1:self.at + 2] in ("]", ""):
            return self.literal(low)
        self.at += 1
        high = self.next()
        if high == "\\":
            high = self.next()
            if high.isalnum():
                high = self.bound(high)
        if high < low:
            raise self.fail(f"bad range {low}-{high}")
        return self.between(low, high)

    def between(self, low: str, high: str) -> Test:
        if self.fold:
            return lambda one: low <= one.lower() <= high or low <= one.upper() <= high
        return lambda one: low <= one <= high

    def literal(self, char: str) -> Test:
        if self.fold:
            return lambda one: one.lower() == char.lower()
        return lambda one: one == char

    def single(self, test: Test) -> Node:
        def build(program: list[Instruction]) -> None:
            self.add(program, (CHAR, test, ()))
        return build

    def anchor(self, kind: int) -> Node:
        def build(program: list[Instruction]) -> None:
            self.add(program, (kind, None, ()))
        return build

    def add(self, program: list[Instruction], instruction: Instruction) -> int:
        if len(program) >= PROGRAM_STATES_MAX:
            raise self.fail("too large")
        program.append(instruction)
        return len(program) - 1


def _each(parts: list[Node], program: list[Instruction]) -> None:
    for part in parts:
        part(program)
