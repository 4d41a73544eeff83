"""The command line: `pykbroker start`, `pykbroker topics ...`.

1. One module per group of commands. It imports click and little else: trio, the broker and the client are imported
   inside the command that needs them, so that `--help` answers at once.
2. What goes wrong on the operator's side is one sentence that says what to do, and exit code 1, or 2 for a wrong
   command line. A traceback is a defect.
3. stdout is for what was asked for, stderr for the log. Logging is configured here and nowhere else.
4. It reads options, environment and files and hands `Settings` to the broker; it knows no part of it.
"""
