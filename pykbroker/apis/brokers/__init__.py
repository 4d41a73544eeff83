"""APIs that brokers ask of the controller, on the controller's listeners, and that are no row of `controller_apis`.

1. A handler passes the request to the controller, whose response waits until the change is committed.
2. Envelope carries a request of a client, with its principal and address. It never carries another Envelope.
"""
