"""The command line: `pykbroker start`, `pykbroker topics ...`.

1. A module holds one group of commands, and imports little more than click: a command imports trio, the broker and the
   client when it needs them, so that `--help` answers at once.
2. An error that the operator can correct is one sentence that says what to do, and exit code 1, or 2 for an invalid
   command line. A traceback is a defect.
3. stdout carries the requested output, stderr the log. Logging is configured here and nowhere else.
4. The package turns options, environment and files into `Settings`, and knows nothing else of the broker.
"""
