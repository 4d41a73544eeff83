"""Fuzzing of a whole broker in this process, with requests that are nearly valid, and checks that must always hold.

    python -m tools.fuzz --seconds 600 --seed 1

`values` makes valid requests from the declarations. `mutate` changes requests as trees of fields or as bytes.
`fuzzed_broker` feeds them to a broker through its connections, without sockets, and checks the broker. The command
keeps inputs that reach new lines of code.
"""
