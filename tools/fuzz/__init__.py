"""Fuzzing of a whole broker in this process: requests that are nearly right, and what must hold whatever comes.

    python -m tools.fuzz --seconds 600 --seed 1

`values` makes valid requests from the declarations, `mutate` spoils them as trees or as bytes, `house` feeds them to a
broker through its connections without sockets, and judges. The command goes where new lines of code are reached.
"""
