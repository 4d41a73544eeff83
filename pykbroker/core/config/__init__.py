"""A broker's configs: the table of all that Kafka 4.3.1 knows, their values in layers, and how they may change.

1. The table is the truth: names, types, defaults, allowed values and update modes are read from it and nowhere else.
2. A value has a source: this broker's dynamic value beats the cluster's, which beats the file's, and that the default.
3. A change is checked as a whole before any part of it is taken.
Must not know: files, requests, the metadata log.
"""
