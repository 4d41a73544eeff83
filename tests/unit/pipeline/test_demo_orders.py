"""The records of the demonstration."""

from __future__ import annotations

import json
from collections import Counter

from pykbroker.pipeline.demo_orders import CUSTOMERS, DAY_MS, LATE_MS_MAX, orders

NOW_MS = 1_764_000_000_000


def test_orders_are_the_same_each_time_and_of_the_last_day() -> None:
    found = orders(5000, NOW_MS)
    assert found == orders(5000, NOW_MS)
    assert {len(column) for column in found} == {5000}
    assert min(found.timestamps) >= NOW_MS - DAY_MS - LATE_MS_MAX
    assert max(found.timestamps) <= NOW_MS
    assert found.timestamps != sorted(found.timestamps)


def test_a_few_customers_order_often_and_some_leave() -> None:
    found = orders(20_000, NOW_MS)
    counts = Counter(found.keys)
    assert len(counts) <= CUSTOMERS
    assert counts.most_common(1)[0][1] > 20 * 20_000 / CUSTOMERS
    assert 100 < found.values.count(None) < 300
    values = [json.loads(value) for value in found.values if value is not None]
    assert all(value["amount"] >= 2 for value in values)
    assert [value["order"] for value in values] == sorted(value["order"] for value in values)
