"""The commands of `pykbroker users`: the users who log in to any Kafka cluster by SCRAM.

1. A password is a word of the command, a line of a file, or made and printed once. No message to a broker has it.
2. A user has the same password for all SCRAM mechanisms.
"""
