"""Clients of every face that get Ctrl-C on a real cluster, and the check of what they have reported and done.

    python -m tools.interrupts --signals 500
    python -m tools.interrupts --processes 200

1. `sends` interrupts the sends of one process again and again. `processes` interrupts ordinary programs (`programs`),
   each in a process of its own, which then end.
2. A line for each face says what was found. The exit code is 1 if anything hangs, or is lost, doubled or torn.
3. `--servers` names a running cluster, such as one of Apache Kafka.
"""
