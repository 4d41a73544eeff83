"""What the cluster consists of, and who decides about it: images, the records between them, the controller.

1. The log of records is the only truth; an image is what its records up to one offset say, and nothing else.
2. One function per record type changes the state (`replay`), whether the record was just decided or read from disk.
3. A published image never changes. What changes is a draft, which copies a table before its first write.
4. Requests are decided on the draft: they see what was decided before them, committed or not.
5. Ids are drawn from randomness that is handed in, times and offsets are arguments.

It knows no file, clock or socket, and not how its records come to be durable.
"""
