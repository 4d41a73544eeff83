"""Fuzzing of a complete broker in this process: nearly valid requests, and checks that must always hold.

    python -m tools.fuzz --seconds 600 --seed 1

`values` builds valid requests from the declarations. `mutate` changes requests as trees of fields or as bytes.
`fuzzed_broker` passes them to a broker through connections without sockets, and checks the broker. The command keeps
inputs that reach new code. With `--logins`, it sends sequences of requests to a listener with SASL instead (`logins`).
"""
