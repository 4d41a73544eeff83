"""`python -m tools.files` prints the named folders, and refuses a name that is none."""

from __future__ import annotations

import pytest

from tools.files import file_map


def test_the_map_has_the_files_of_a_folder_and_of_those_below_it():
    opening, *lines = file_map(["storage/files"]).splitlines()
    assert opening.startswith("pykbroker/storage/files: ")
    assert any(line.startswith("  small_files.py ") for line in lines)


def test_the_whole_map_has_both_packages_and_no_file_without_a_sentence():
    lines = file_map().splitlines()
    assert {line.split("/")[0].split(":")[0] for line in lines if line[0] != " "} == {"pykbroker", "wire"}
    assert [line for line in lines if len(line.split(maxsplit=1)) < 2] == []


def test_a_name_that_is_no_folder_is_refused():
    with pytest.raises(FileNotFoundError, match="storage/nothing is a folder neither of the project nor of pykbroker"):
        file_map(["storage/nothing"])
