"""The command line: `pykbroker start`, `pykbroker topics ...`, and Kafka's own tools.

1. A folder has the commands of one group. Folders are strangers to each other, except that `bench` reads and writes as
   `records` does, `groups` finds offsets as `topics` does, `cluster` and the demo of `pipeline` run the broker of
   `start`, and `kafka_tools` translates to all. Modules that several folders use are beside them.
2. The module of a command imports little more than click: neither trio, msgspec nor the client. They are imported when
   the command runs, so that `--help` answers at once.
3. Only `start` runs a broker. `logs` and `kafka-storage` read and write the files of one. All other commands know a
   cluster by the Kafka protocol only.
4. An error that the operator can correct is one sentence that says what to do, and exit code 1, or 2 for an invalid
   command line. A traceback is a defect.
5. stdout carries the requested output, stderr the log.
"""
