"""Outgoing connections to brokers, and a small admin client on them.

1. Requests of one connection are answered in their order; each caller reads its own answer, so there is no task to own.
2. A caller may be cancelled at any time: its answer is read over. Only a request cut off in the middle ends the
   connection.
3. A version is chosen per request from what the broker said it takes and what `wire` can write.
4. What a broker sends is not trusted: lengths are bounded, and what does not decode ends the connection.
Knows nothing of topics' logs, of this process's own broker, or of reconnecting: who needs a peer asks for a new one.
"""
