"""A broker's configs: the table of all configs of Kafka 4.3.1, their values in layers, and the rules for changing them.

1. The table is the only source of names, types, defaults, allowed values and update modes.
2. A value has a source. The sources in order of precedence are: the dynamic value of this broker, the cluster-wide
   dynamic value, the static value from the config file, the default.
3. A change is validated as a whole before any part of it is applied.
4. The package must not know the metadata, whose records have the dynamic values.
"""
