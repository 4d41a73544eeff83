"""The command `pykbroker start`, and everything about the process of a broker: log, memory, limits and data directory.

1. `options` turns the command line, the environment and the config file into the `Settings` of a broker. `run` runs the
   broker, and turns its end into an exit code.
2. The broker is imported once its options are checked: an invalid option is refused at once.
3. The log is configured here.
"""
