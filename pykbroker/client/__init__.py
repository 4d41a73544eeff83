"""Outgoing connections to brokers, and a small admin client that uses them.

1. A connection has no task of its own: each caller reads its own response. A broker responds in request order.
2. A caller may be cancelled at any time, and its response is then skipped. Only a request that is cancelled while it is
   being sent ends the connection.
3. The version of each request is the newest that both the broker and `wire` support.
4. A broker's bytes are not trusted: lengths are bounded, and a response that does not decode ends the connection.

Must not know: the logs of topics, the broker of this process, reconnecting.
"""
