"""The sticky assignor, in a package as in kafka-python.

1. `sticky_assignor` has the class.
"""
