"""The followers of the partitions that this broker leads: their fetch sessions and reads, and the changes of the ISR.

1. A fetch of a follower costs time only for the partitions that are due.
2. `core/replication/leading` decides about the ISR and the limit of the high watermark. `IsrKeeper` reports fetches and
   passing time to it, and `IsrChanges` sends the proposed changes to the controller, one request at a time.
3. The package must not know `care`.
"""
