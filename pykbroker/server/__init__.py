"""Connections and the table of APIs: frames in, handler calls, ordered replies.

1. A connection is sans-I/O. It runs the handler itself; a pump of `world.net` moves its bytes.
2. A handler returns its response, or a coroutine that will, or `Held` of one, or steps that lead to one of these.
   Nothing else waits for anybody, and no request keeps the loop for longer than its share.
3. Replies leave in request order. A request starts only after the handler of the one before it has returned.
4. What a peer does wrong ends that peer's connection with one log line; no other connection notices.
5. This package knows the protocol's frames and headers, not what any API means.
"""
