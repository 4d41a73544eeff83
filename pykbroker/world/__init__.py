"""The machine as the broker sees it: all that can fail, stall or differ between two runs.

1. Each seam (disk, network, wall clock, work off the loop, workers, randomness) is a Protocol, handed over once;
   only the composition root holds a whole `World`.
2. Two implementations: the `system_*` modules here, and the simulation's. Nothing else touches the machine.
3. A plain method ends on the loop; whatever may wait for hardware is async. Deadlines are trio's clock, no seam.
4. Knows no Kafka: bytes, names and errors of the kernel.
"""
