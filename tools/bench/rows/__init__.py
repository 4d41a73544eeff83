"""The rows of the table, with a module for each kind of load. ``tools/bench/table.py`` lists them in order."""
