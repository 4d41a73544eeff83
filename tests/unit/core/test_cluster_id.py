"""Tests of the cluster id that a start requires."""

from __future__ import annotations

import pytest

from pykbroker.core.cluster_id import required_cluster_id
from pykbroker.core.errors import StartError
from pykbroker.storage.files.meta_properties import MetaProperties


@pytest.mark.parametrize("text", ["MkU3OEVBNTcwNTJENDM2Qk", "4L6g3nShT-eMCtK--X86sw", "x", "a b=c#!:", "~" * 99])
def test_a_cluster_id_is_read_from_meta_properties_as_it_was_written(text: str) -> None:
    required = required_cluster_id(text, "CLUSTER_ID")
    written = MetaProperties(required.text, 1, b"d" * 16)
    assert MetaProperties.decode(written.encode(0)) == written


@pytest.mark.parametrize("text", ["", " ", " a", "a ", "a\nb", "a\\u0041", "ä", "a\x7f"])
def test_a_text_that_meta_properties_cannot_hold_is_no_cluster_id(text: str) -> None:
    with pytest.raises(StartError, match="^CLUSTER_ID: .* is no cluster id: write one such as MkU3"):
        required_cluster_id(text, "CLUSTER_ID")


def test_a_place_of_another_cluster_is_refused() -> None:
    required = required_cluster_id("mine", "CLUSTER_ID")
    required.check(None, "/data", "name another directory")
    required.check("mine", "/data", "name another directory")
    with pytest.raises(StartError) as caught:
        required.check("yours", "/data", "name another directory")
    assert str(caught.value) == (
        "CLUSTER_ID is mine, but /data belongs to cluster yours: write yours, or name another directory"
    )
