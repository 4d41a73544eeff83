"""Tests of the leader epochs of one log, compared with a model that lists the epoch of every offset."""

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.log.epochs import UNDEFINED, LeaderEpochs, OffsetAndEpoch

APPENDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12)


def written(appends: list[tuple[int, int]]) -> tuple[LeaderEpochs, list[int]]:
    """Append batches of (increase of the leader epoch, records); return the epochs and the epoch of each offset."""
    epochs, epoch = LeaderEpochs(), 0
    epoch_of_offset: list[int] = []
    for passed, records in appends:
        epoch += passed
        epochs.assign(epoch, len(epoch_of_offset))
        epoch_of_offset += [epoch] * records
    return epochs, epoch_of_offset


@given(APPENDS)
def test_each_offset_has_the_epoch_in_which_it_was_written(appends: list[tuple[int, int]]) -> None:
    epochs, model = written(appends)
    assert [epochs.epoch_of(offset) for offset in range(len(model))] == model


@given(APPENDS, st.integers(0, 40))
def test_an_epoch_ends_where_the_next_larger_one_begins(appends: list[tuple[int, int]], asked: int) -> None:
    epochs, model = written(appends)
    found = epochs.end_offset_for(asked, len(model))
    if asked > epochs.latest:
        assert found == UNDEFINED
    else:
        assert found.epoch <= asked
        assert all(one <= asked for one in model[: found.offset])
        assert all(one > asked for one in model[found.offset :])


@given(APPENDS, st.integers(0, 40))
def test_truncating_the_end_of_the_log_removes_epochs_that_start_there(
    appends: list[tuple[int, int]], end: int
) -> None:
    epochs, model = written(appends)
    epochs.truncate_end(end)
    assert [epochs.epoch_of(offset) for offset in range(len(model[:end]))] == model[:end]
    assert all(start < end for _, start in epochs.entries)


@given(APPENDS, st.integers(0, 40))
def test_deleting_the_start_of_the_log_keeps_the_epoch_of_the_log_start_offset(
    appends: list[tuple[int, int]], start: int
) -> None:
    epochs, model = written(appends)
    changed = epochs.truncate_start(start)
    assert [epochs.epoch_of(offset) for offset in range(start, len(model))] == model[start:]
    assert not changed or epochs.entries[0][1] == start


def test_an_epoch_without_records_is_replaced_by_the_next_at_the_same_offset() -> None:
    epochs = LeaderEpochs([(0, 0), (2, 60)])
    assert epochs.assign(4, 60)
    assert epochs.entries == ((0, 0), (4, 60))
    assert not epochs.assign(4, 70)


def test_an_epoch_below_the_first_entry_ends_where_the_first_begins() -> None:
    assert LeaderEpochs([(3, 10), (5, 20)]).end_offset_for(1, 30) == OffsetAndEpoch(10, 1)


def test_the_latest_epoch_ends_at_the_log_end_offset() -> None:
    assert LeaderEpochs([(3, 10), (5, 20)]).end_offset_for(5, 30) == OffsetAndEpoch(30, 5)
    assert LeaderEpochs().end_offset_for(-1, 30) == UNDEFINED
