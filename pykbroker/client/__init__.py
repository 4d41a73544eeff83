"""Outgoing connections to brokers, and a small admin client that uses them.

1. A connection is sans-I/O (`outgoing`), and moved by the poller that moves the connections of the server. A simulation
   moves it in the same way.
2. Any number of requests may be in flight. A broker answers them in order, and their correlation ids are compared.
3. A caller may be cancelled at any time. Its response is dropped when it comes, and the connection stays usable.
4. The version of each request is the newest that both the broker and `wire` support, unless the caller selects one.
5. A broker's bytes are not trusted: sizes are bounded, and a response that does not decode ends the connection.
6. A connection that ends fails its pending requests. Only `reconnecting` opens another one, and nothing is sent again:
   the caller decides whether a request may be repeated.

Must not know: the logs of topics, the broker of this process.
"""
