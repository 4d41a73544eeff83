"""Topics, their partitions, leaders and placement.

1. A change is answered once this broker serves it.
2. What a principal may not describe is not said to exist.
"""
