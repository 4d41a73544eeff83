"""A deterministic simulation of brokers and clients on faulty machines, in one thread and from one seed.

1. One seed decides the order of tasks, every delay and every fault. The same seed gives the same digest in any process.
2. Time is virtual and jumps to the next event. Access to the wall clock, random numbers or threads of the real machine
   raises an error.
3. The real broker code runs, from the pumps of its sockets to the bytes of its files. Only the kernel is simulated.
4. A crash is not a cancellation: before the history is checked, no line of a killed process runs any more, not even a
   `finally`.
5. After a power failure, a disk has all synced data, and a random part of the unsynced data, such as torn writes or
   zeros.
6. Clients use the connections of `pykbroker.client` and record their responses. The checkers of a history see nothing
   else.
7. The broker must not know the simulation.
"""
