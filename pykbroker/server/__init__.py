"""The server: it reads requests from connections, calls the handler of each API, and sends the replies in order.

1. A connection is sans-I/O: it calls the handlers itself, and a pump of `world.net` moves its bytes.
2. A handler returns its response, or a `Later`: work whose result is the response. Only that work may wait. No request
   keeps the event loop for longer than a time slice of `world.turns`.
3. Replies leave in request order. The handler of a request is called only after the handler of the previous request has
   returned.
4. An invalid request closes the connection of its client, with one log line, and affects no other connection.
5. The package must not know handlers, logs, groups or transactions. Of requests it knows those of a log-in, and the
   Envelope in which others travel to the controller.
"""
