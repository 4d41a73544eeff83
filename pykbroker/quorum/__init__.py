"""The metadata log and the controller on top of it: how a change of the cluster becomes durable, and known.

1. Decide, append and replay happen without an await between them, so that every request sees those before it.
2. One fsync commits all that was appended before it began; what comes meanwhile waits for the next one.
3. A reply leaves when all that its decision rests on is committed.
4. A batch that is too large is refused before anything happens. After any other failure of the log nothing more is
   decided: the only voter cannot know what it holds, so the broker stops.
5. Every start is a new epoch: first in `quorum-state`, then as a LeaderChange in the log.
6. Committed images go to one subscriber, in order; `wait_for` tells when it has applied one.
7. A start reads the newest snapshot that holds, then the log from its end on. What is not known here (types of records,
   levels of features other than those of the log itself) stays in log and snapshots as it came, and is not told.

It knows no API, no connection and no partition of a topic.
"""
