"""Record tests/data/assignors/cases.jsonl.xz: random groups, with the assignments of Kafka's own assignors.

Run it from the top of the checkout: python -m tools.assignors.record. It downloads Kafka's jars if they are missing.
"""

from __future__ import annotations

import json
import lzma
import random
import subprocess
from pathlib import Path
from typing import Any

from pykbroker.core.consumer.assignors.sticky_user_data import encode_sticky_user_data
from pykbroker.core.topic_partition import TopicPartition
from tools.kafka_jars import fetch

CASES = 400
SEED = 881
HERE = Path(__file__).parent
DATA = HERE.parent.parent / "tests/data/assignors/cases.jsonl.xz"


def case(draw: random.Random) -> dict[str, Any]:
    """Return a group: its cluster with the racks of replicas, and its members with the partitions that they own."""
    topics = draw.sample(["a", "b", "c", "d", "e"], draw.randint(1, 5))
    racked = draw.random() < 0.6
    alike = draw.randint(1, 9) if draw.random() < 0.4 else 0
    racks = ["r1", "r2", "r3"] if racked else []
    cluster = {
        topic: [
            sorted(draw.sample(racks, min(len(racks), draw.randint(1, 2)))) for _ in range(alike or draw.randint(1, 9))
        ]
        for topic in topics
    }
    equal = draw.random() < 0.6
    free = [(topic, index) for topic in topics for index in range(len(cluster[topic]))]
    draw.shuffle(free)
    members = {}
    for number in range(draw.randint(1, 7)):
        chosen = topics if equal else draw.sample(topics, draw.randint(1, len(topics)))
        owned = [free.pop() for _ in range(min(len(free), draw.randint(0, 6)))]
        kept = [TopicPartition(*place) for place in owned if place[0] in chosen]
        members[f"m{number}"] = {
            "topics": chosen,
            "owned": kept,
            "sticky_user_data": encode_sticky_user_data(kept, 4).hex(),
            "generation": 4,
            "rack": draw.choice([None, *racks]),
            "instance": f"i{9 - number}" if draw.random() < 0.3 else None,
        }
    return {"cluster": cluster, "members": members}


def main() -> None:
    """Write the cases with the assignments that Kafka returned."""
    draw = random.Random(SEED)
    cases = "\n".join(json.dumps(case(draw)) for _ in range(CASES))
    command = ["java", "-cp", f"{fetch()}/*", str(HERE / "AssignorCases.java")]
    out = subprocess.run(command, input=cases, text=True, capture_output=True, check=True).stdout
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if len(rows) != CASES:
        raise SystemExit(f"Kafka's assignors answered {len(rows)} of {CASES} cases; run {command} by hand to see why")
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_bytes(lzma.compress("\n".join(rows).encode()))


if __name__ == "__main__":
    main()
