"""Client metrics (KIP-714) of a broker without a metrics receiver: requests are answered and the metrics are dropped.

1. A subscription is a config resource that selects clients, metrics and an interval. All subscriptions that match a
   client together give it a subscription id, which the client sends with its metrics.
2. A client asks for its subscriptions, then pushes metrics. A request before its interval has passed is throttled,
   unless the last response told the client to ask again.
3. A broker without a receiver does not advertise the two APIs. Clients that use them anyway get Kafka 4.3.1's replies.
"""
