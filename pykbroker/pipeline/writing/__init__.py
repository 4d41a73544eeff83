"""Records of a DataFrame into topics, each once: tasks write transactions that carry the position of their source.

1. A source partition has one transactional id. A task that takes it fences every earlier task, so that neither a
   speculative task nor one of a killed run can write beside its successor.
2. Each transaction commits the offset of the next source record to a group. A task reads that position after it has
   fenced its predecessors, and skips the records before it.
3. Records stay in the columns of Arrow until the producer takes them.
"""
