"""The marks `kafka_broker` and `kafka_cluster`, which give tests a broker or a cluster with options of their own.

1. A marked test is a parametrized test whose parameter is its options. pytest therefore sets up the fixtures that use
   the broker again, and other tests keep the broker without the mark.
2. Each set of options has one broker, which runs until the end of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Generic, TypeVar

import pytest

from pykbroker.testing.ini import unknown_option

T = TypeVar("T")

FIXTURES = {"kafka_broker": "kafka_broker", "kafka_cluster": "kafka_cluster_of_session"}
"""Mark -> the fixture whose options it sets."""
OF_UNMARKED = ("data_dir", "port")
"""The options that only the broker without a mark has: two brokers cannot share a directory or a port."""
EXAMPLE = "tls=True, users={'alice': 'secret'}"


class MarkedOptions:
    """The options of marked tests, as the parameter of a fixture. Tests with equal options share one."""

    def __init__(self, options: Mapping[str, Any], *, are_named: bool) -> None:
        self.options, self.are_named = options, are_named


SHARED = pytest.StashKey[dict[tuple[str, bool, str], MarkedOptions]]()


def declare(config: pytest.Config) -> None:
    """Declare the marks."""
    for mark in FIXTURES:
        config.addinivalue_line("markers", f"{mark}(**options): give the test a {mark} with options such as {EXAMPLE}")


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give a marked test the options of its marks. Those of the test precede those of its class and module."""
    for mark, fixture in FIXTURES.items():
        found = [*metafunc.definition.iter_markers(mark)]
        if not found or fixture not in metafunc.fixturenames:
            continue
        options = {name: value for each in reversed(found) for name, value in each.kwargs.items()}
        are_named = not any(each.args for each in found)
        shared = metafunc.config.stash.setdefault(SHARED, {})
        one = shared.setdefault((mark, are_named, key_of(options)), MarkedOptions(options, are_named=are_named))
        metafunc.parametrize(fixture, [one], indirect=True, scope="session", ids=["-".join(options)])


def check_effect(item: pytest.Item) -> None:
    """Fail a marked test whose broker would be that of unmarked tests: one of unittest, or one without the fixture."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for mark, fixture in FIXTURES.items():
        uses = fixture in getattr(item, "fixturenames", ())
        if uses and item.get_closest_marker(mark) and fixture not in parameters:
            pytest.fail(f"the mark {mark} has no effect on a unittest.TestCase: write a function", pytrace=False)
        # getfixturevalue would provide it; tests of a marked class or module need no broker
        if not uses and any(each.name == mark for each in item.own_markers):
            pytest.fail(f"the mark {mark} has no effect on a test without the argument {mark}: add it", pytrace=False)


def options_of_test(
    request: pytest.FixtureRequest, unmarked: Mapping[str, Any], mark: str, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options of the broker of a test: those of its mark, and those of `unmarked` that it does not set.

    StartError: the mark has an option that it cannot have, or one without a name.
    """
    from pykbroker.core.errors import StartError

    marked = getattr(request, "param", None)
    if not isinstance(marked, MarkedOptions):
        return dict(unmarked)
    if not marked.are_named:
        raise StartError(f"the mark {mark} takes options by name: write {mark}({EXAMPLE})")
    allowed = [name for name in names if name not in OF_UNMARKED]
    for name in marked.options:
        if name not in allowed:
            raise StartError(unknown_option(f"{name!r} in the mark {mark}", name, allowed, f"a marked {mark}"))
    return {**{name: value for name, value in unmarked.items() if name in allowed}, **marked.options}


def key_of(options: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal options. The order of users counts: the first may do everything."""
    return repr(sorted(options.items()))


class BrokersOfSession(Generic[T]):
    """The brokers, or the clusters, of a session: one for each set of options."""

    def __init__(self, running: Callable[..., AbstractContextManager[T]], until: ExitStack) -> None:
        self._running, self._until = running, until
        self._found: dict[str, T | Exception] = {}

    def started(self, options: Mapping[str, Any]) -> T:
        """Return the broker with these options. StartError: it does not start, or has not started for another test."""
        from pykbroker.core.errors import StartError

        key = key_of(options)
        if key not in self._found:
            try:
                self._found[key] = self._until.enter_context(self._running(**options))
            except StartError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found
