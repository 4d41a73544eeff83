"""Record tests/data/partition_changes/cases.jsonl.xz: random changes of partitions, with the records of Kafka.

Run it from the top of the checkout: python -m tools.partition_changes.record. It downloads Kafka's jars if they are
missing.
"""

from __future__ import annotations

import json
import lzma
import random
import subprocess
from pathlib import Path
from typing import Any

from tools.kafka_jars import fetch

CASES = 3_000
SEED = 966
BROKERS = [1, 2, 3, 4, 5]
LEVELS = [11, 17, 23, 30]
ELR_LEVEL = 23
HERE = Path(__file__).parent
DATA = HERE.parent.parent / "tests/data/partition_changes/cases.jsonl.xz"


def case(draw: random.Random) -> dict[str, Any]:
    """Return a partition, the state of the brokers, and what the partition is to become."""
    level = draw.choice(LEVELS)
    elr = level >= ELR_LEVEL and draw.random() < 0.8
    partition, original = _partition(draw, elr)
    kind = draw.choice(["leave", "lost", "isr", "reassign", "elect", "cancel"])
    gone = draw.choice(original) if kind in ("leave", "lost") else None
    return {
        "partition": partition,
        "target": _target(draw, kind, partition, gone),
        "active": [one for one in BROKERS if one != gone and draw.random() < 0.7],
        "election": draw.choice(["PREFERRED", "UNCLEAN"] if kind == "elect" else ["ONLINE", "UNCLEAN"]),
        "elr": elr,
        "min_isr": draw.randint(1, len(original)),
        "level": level,
        "lost": gone if kind == "lost" else None,
        "recovered": kind == "isr" and draw.random() < 0.5,
    }


def _partition(draw: random.Random, elr: bool) -> tuple[dict[str, Any], list[int]]:
    """Return a partition and its replicas without those that a reassignment adds."""
    original = draw.sample(BROKERS, draw.randint(1, 4))
    adding: list[int] = []
    removing: list[int] = []
    if draw.random() < 0.4:
        adding = sorted(
            draw.sample([one for one in BROKERS if one not in original], draw.randint(0, 5 - len(original)))
        )
        removing = sorted(draw.sample(original, draw.randint(0, len(original) - (not adding))))
    kept = [one for one in original if one not in removing]
    replicas = [*draw.sample([*kept, *adding], len(kept) + len(adding)), *removing]
    isr = draw.sample(replicas, draw.randint(0 if elr else 1, len(replicas)))
    leader = draw.choice(isr) if isr and draw.random() < 0.9 else -1
    partition = {
        "replicas": replicas,
        "isr": isr,
        "elr": [one for one in replicas if elr and one not in isr and draw.random() < 0.3],
        "last_known_elr": [draw.choice(replicas)] if elr and leader == -1 and draw.random() < 0.6 else [],
        "leader": leader,
        "adding": adding,
        "removing": removing,
        "recovering": leader != -1 and len(isr) == 1 and draw.random() < 0.3,
    }
    return partition, original


def _target(draw: random.Random, kind: str, partition: dict[str, Any], gone: int | None) -> dict[str, list[int]]:
    target = {name: partition[name] for name in ("replicas", "isr", "adding", "removing")}
    reverted = [one for one in partition["isr"] if one not in partition["adding"]]
    if gone is not None:
        target["isr"] = [one for one in partition["isr"] if one != gone]
    elif kind == "isr" and partition["leader"] != -1:
        others = [one for one in partition["replicas"] if one != partition["leader"]]
        target["isr"] = [partition["leader"], *draw.sample(others, draw.randint(0, len(others)))]
    elif kind == "reassign":
        wanted = draw.sample(BROKERS, draw.randint(1, 4))
        target["removing"] = sorted(one for one in partition["replicas"] if one not in wanted)
        target["adding"] = sorted(one for one in wanted if one not in partition["replicas"])
        target["replicas"] = [*wanted, *target["removing"]]
    elif kind == "cancel" and reverted:
        target["replicas"] = [one for one in partition["replicas"] if one not in partition["adding"]]
        target["isr"], target["adding"], target["removing"] = reverted, [], []
    return target


def main() -> None:
    """Write the cases with Kafka's records."""
    draw = random.Random(SEED)
    cases = "\n".join(json.dumps(case(draw)) for _ in range(CASES))
    command = ["java", "-cp", f"{fetch()}/*", str(HERE / "PartitionChangeCases.java")]
    out = subprocess.run(command, input=cases, text=True, capture_output=True, check=True).stdout
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if len(rows) != CASES:
        raise SystemExit(f"Kafka's controller answered {len(rows)} of {CASES} cases; run {command} by hand to see why")
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_bytes(lzma.compress("\n".join(rows).encode()))


if __name__ == "__main__":
    main()
