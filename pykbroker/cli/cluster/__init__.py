"""The command `pykbroker cluster`, which starts a process for each broker of a cluster on this machine.

1. `plan` decides the options of each broker as `pykbroker start` takes them. `run` starts the processes, and starts a
   process again that dies.
2. A broker never outlives the command, however the command ends.
"""
