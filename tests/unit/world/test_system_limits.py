"""Tests of the limit of open files, which systems allow to be raised to different values."""

from __future__ import annotations

import resource

import pytest

from pykbroker.testing import running_broker
from pykbroker.testing.broker_thread import OPEN_FILES
from pykbroker.world.system_limits import OPEN_FILES_UNLIMITED, open_files_max, raise_open_files_limit

UNLIMITED = resource.RLIM_INFINITY


class Limits:
    """The limits of a process on a system that refuses a soft limit above `allowed`."""

    def __init__(self, soft: int, hard: int, allowed: int) -> None:
        self.soft, self.hard, self.allowed = soft, hard, allowed

    def get(self, _kind: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _kind: int, limits: tuple[int, int]) -> None:
        soft, hard = limits
        assert hard == self.hard
        if soft > self.allowed:
            raise ValueError("current limit exceeds maximum limit")
        self.soft = soft

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resource, "getrlimit", self.get)
        monkeypatch.setattr(resource, "setrlimit", self.set)


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "raised"),
    [
        (256, UNLIMITED, 10_240, 10_240),
        (256, UNLIMITED, 257, 257),
        (256, UNLIMITED, 256, 256),
        (256, UNLIMITED, 1 << 30, OPEN_FILES_UNLIMITED),
        (1024, 4096, 1 << 30, 4096),
        (1024, 1024, 1 << 30, 1024),
        (OPEN_FILES_UNLIMITED - 1, UNLIMITED, 1 << 30, OPEN_FILES_UNLIMITED),
        (OPEN_FILES_UNLIMITED + 1, UNLIMITED, 1 << 30, OPEN_FILES_UNLIMITED + 1),
        (UNLIMITED, UNLIMITED, 0, UNLIMITED),
    ],
)
def test_the_limit_is_raised_as_far_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, raised: int
) -> None:
    limits = Limits(soft, hard, allowed)
    limits.install(monkeypatch)
    raise_open_files_limit()
    assert limits.soft == raised


def test_a_broker_for_tests_raises_a_low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(256, UNLIMITED, 1 << 20)
    limits.install(monkeypatch)
    with running_broker():
        assert open_files_max() == OPEN_FILES
