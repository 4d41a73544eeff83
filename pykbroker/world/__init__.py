"""The interface to the machine: everything that can fail, stall or differ between two runs.

1. Each seam (disk, network, wall clock, work off the event loop, worker processes, randomness) is a Protocol. Only
   `pykbroker.broker` holds a whole `World`. Every other package gets the seams that it uses.
2. Each Protocol has two implementations: a `system_*` module here, and one in the simulation. No other code touches
   the machine.
3. A synchronous method never waits for hardware. A method that may wait is async. Deadlines use trio's clock, which a
   test can replace without a seam.
4. The package must not depend on Kafka: it handles bytes, names and the kernel's errors.
"""
