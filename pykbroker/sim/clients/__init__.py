"""Producers and consumers on a scripted cluster under faults, and the checks of their runs.

1. A run is a stage, a source of faults and the work of clients. One seed decides all of them.
2. The clients are the real ones, with a simulated network and clock.
3. A check compares what the clients were told with the logs of the cluster, after all faults have ended.
"""
