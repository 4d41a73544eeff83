"""Connections and the table of APIs: frames in, calls of handlers, ordered replies out.

1. A connection is sans-I/O. It runs the handler itself; a pump of `world.net` moves its bytes.
2. A handler returns its response, or a `Later`: the work that leads to it. Only that work waits, and no request keeps
   the loop for longer than its share.
3. Replies leave in request order. A request starts only after the handler of the request before it has returned.
4. An error of a peer closes that peer's connection, with one log line, and affects no other connection.
5. This package knows the frames and headers of the protocol, but not the meaning of any API.
"""
