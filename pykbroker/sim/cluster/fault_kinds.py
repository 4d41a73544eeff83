"""The kinds of faults of a simulated cluster, by what they break."""

from __future__ import annotations

AIMED = ("lose_metadata", "lose_eligible", "start_slowly", "starve_isrs")
"""The faults of machines that wait for a moment at which they could do harm."""
MACHINES = (
    "kill",
    "kill_midstep",
    "kill_all",
    "restart",
    "pause",
    "skew_clock",
    "drift_clock",
    "slow_disk",
    "fill_disk",
    "fail_reads",
    "fail_syncs",
    "lose_power",
    "lose_power_midstep",
    "lose_power_of_all",
    "wipe",
    "wipe_source",
    "lose_joining",
    "join_behind",
    "fork_epochs",
    "elect_uncleanly",
    "strand_leader",
    "pass_follower",
    *AIMED,
)
"""The faults of machines: processes, clocks, disks and power."""
CUTS = ("silence", "isolate", "deafen", "mute", "flap", "split")
"""The cuts, after which a cluster without other faults recovers within seconds."""
LINKS = (
    "silence",
    "isolate",
    "deafen",
    "mute",
    "flap",
    "split",
    "cut_leader",
    "depose_twice",
    "slow_join",
    "join_late",
    "lose_segments",
    "stall",
)
"""The faults of the network between brokers, and between brokers and clients."""
RETENTION = ("shrink_by_size", "shrink_by_time")
"""The changes of retention."""
METADATA = ("reassign", "elect_leaders", "recreate_topic", "delete_records", *RETENTION)
"""The changes of an operator, which are no faults, but must not lose anything under faults."""
LAST = ("fill_leader",)
"""The faults of machines that strike once all others have ended, since writes must go on meanwhile."""
POWER = ("lose_power", "lose_power_midstep", "lose_power_of_all", "fail_syncs", "lose_metadata")
"""The power losses. They are used only if every acknowledged record is synced."""
LOSSES = (*POWER, "wipe", "wipe_source", "lose_joining", "lose_eligible")
"""The faults that take records or files from a disk."""
DISK = ("fill_disk", "fail_reads", "fail_syncs", *LAST)
"""The disk faults, which may end a broker."""
KINDS = (*MACHINES, *LINKS, *METADATA, *LAST)
"""All kinds of faults."""
