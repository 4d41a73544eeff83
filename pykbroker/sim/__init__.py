"""A world made of seeds: brokers and their clients in one thread, on machines that fail as real ones do.

1. One seed decides all: the order of tasks, every delay, every fault. Same seed, same digest, in any process.
2. Time is virtual and jumps to the next event. Wall clock, dice and threads of the machine raise in here.
3. What runs is the product, from its sockets' pump down to its files' bytes; only the kernel is played.
4. A crash is no cancellation: of a killed process no line runs any more, not even a `finally`, until the verdict is in.
5. A disk keeps what was synced, and of the rest what luck leaves: all, nothing, torn, zeros, in any order.
6. Clients write down what they were told; a checker judges the history and looks at nothing else.
Must not know: how the broker keeps its state. There is no line for the simulation in the product.
"""
