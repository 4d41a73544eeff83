"""The metadata log and the controller on top of it: how a change of the metadata becomes durable and takes effect.

1. The controller decides a change, appends its records and replays them before it handles the next request. A request
   therefore sees the changes of all requests before it.
2. An fsync commits all records that were appended before it began. Records appended meanwhile wait for the next fsync.
3. A response is sent once all records that its decision depends on are committed.
4. A batch that is too large, or for which the disk has no room, is refused, and nothing is changed. After any other
   failure of the log the broker stops: the only voter no longer knows what the log contains.
5. Every start begins a new epoch. The epoch is written to `quorum-state` first, then to the log as a LeaderChange
   record.
6. Committed images are passed to one subscriber, in order. `Images.wait_for` waits until the subscriber has applied an
   image.
7. A start reads the newest undamaged snapshot, then the log from the snapshot's end on. Records of unknown types and
   unknown levels of features stay in log and snapshots unchanged. An unknown level of a feature of the log itself stops
   the start.
8. The package must not know groups, transactions or the handlers of requests.
"""
