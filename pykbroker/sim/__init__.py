"""A simulated world that is made from a seed: brokers and clients in one thread, on machines that fail as real ones do.

1. One seed decides the order of tasks, every delay and every fault. The same seed gives the same digest in any process.
2. Time is virtual and jumps to the next event. The wall clock, random numbers and threads of the real machine raise.
3. The product itself runs, from the pumps of its sockets down to the bytes of its files. Only the kernel is simulated.
4. A crash is not a cancellation: no line of a killed process runs any more, not even a `finally`, before the verdict.
5. A disk keeps what was synced. Of the rest it keeps a random part: all, none, torn writes or zeros, in any order.
6. Clients connect as the product does, record the responses they get, and a checker judges that history alone.

Must not know: how the broker keeps its state. The product has no line for the simulation.
"""
