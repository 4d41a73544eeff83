"""The cluster's metadata: images of it, the records that change it, and the controller that decides the changes.

1. The metadata log is the only source of truth. An image is the state after the records up to one offset.
2. One function for each record type changes the state (`replay`), both for new records and for records read from disk.
3. A published image never changes. Changes are made in an `ImageDraft`, which copies a table before its first write.
4. Requests are decided on the draft: they see the effects of earlier requests, committed or not.
5. Randomness, times and offsets are arguments.
"""
