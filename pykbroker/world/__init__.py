"""The interface to the machine: everything that can fail, stall or differ between two runs.

1. Disks, the network, work off the event loop and worker processes are Protocols. Clocks are functions, and randomness
   is a `random.Random`. A `World` has the seams of a broker, and a `ClientWorld` those of a producer or consumer. A
   broker's packages get the seams that they use, never the `World`.
2. A seam has an implementation here, in a `system_*` module, and one in the simulation. The broker and the shells of
   clients reach the machine through no other code. Commands, fixtures and jobs, which are not simulated, may.
3. A synchronous method does not wait for hardware, unless the kernel delays a write into the page cache. A method that
   may wait is async. Deadlines use trio's clock, which a test can replace without a seam.
4. The package must not know Kafka: it handles bytes, names and the kernel's errors.
"""
