"""Outgoing connections to brokers, and what all clients share: metadata, look-up of coordinators, an admin client.

1. A connection is sans-I/O (`outgoing`). The poller that serves the connections of the server also moves its bytes, in
   a simulation too.
2. Any number of requests may be in flight. A broker answers them in order, and the correlation ids of responses are
   checked.
3. A caller may be cancelled at any time. Its response is then dropped when it arrives, and the connection stays usable.
4. The version of each request is the newest version that both the broker and `wire` support, unless the caller selects
   one.
5. A broker's responses are not trusted: sizes are limited, and a response that does not decode closes the connection.
6. When a connection ends, its pending requests fail. Only `reconnecting` opens another connection. No request is sent
   again: the caller decides whether a request may be repeated.
7. A view of the cluster is frozen, and its leaders never go back to an older leader epoch of the same topic id.
8. Time is trio's clock in seconds. Random numbers come from the caller, who passes `World.rng.uniform`.

The package must not know a broker of this process.
"""
