"""The names of kafka-python's admin client: each says what to use, and what it names exists."""

from __future__ import annotations

import re

import click
import kafka.admin
import pytest

from pykbroker.cli.main import pykbroker
from pykbroker.kafka import KafkaAdminClient, admin


@pytest.mark.parametrize("name", sorted(admin.COMMANDS))
def test_a_class_of_the_admin_client_says_what_to_use(name: str) -> None:
    assert hasattr(kafka.admin, name)
    found = getattr(admin, name)
    for use in (lambda: found("name", 1, replication_factor=1), lambda: found.TOPIC):
        with pytest.raises(ImportError, match=f"{name} is not part of pykbroker.kafka: .*kafka.admin"):
            use()


def test_a_command_that_an_error_names_exists() -> None:
    for sentence in admin.COMMANDS.values():
        for words in re.findall(r"`pykbroker ([a-z]+(?: [a-z]+)?)\b", sentence):
            command: click.Command | None = pykbroker
            for word in words.split():
                assert isinstance(command, click.Group), words
                command = command.get_command(click.Context(command), word)
            assert command is not None, words


def test_other_names_of_the_admin_client_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaAdmin'"):
        _ = admin.KafkaAdmin
    assert not hasattr(KafkaAdminClient, "_client")
