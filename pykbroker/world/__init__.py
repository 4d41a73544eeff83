"""The machine as the broker sees it: everything that can fail, stall or differ between two runs.

1. Each seam (disk, network, wall clock, work off the loop, workers, randomness) is a Protocol. Only the composition
   root holds a whole `World`; a part gets the seams that it uses.
2. Each Protocol has two implementations: a `system_*` module here, and one in the simulation. No other code touches
   the machine.
3. A plain method returns without waiting for hardware; a method that may wait is async. Deadlines use trio's clock,
   which needs no seam.
4. Nothing here knows Kafka: it handles bytes, names and the kernel's errors.
"""
