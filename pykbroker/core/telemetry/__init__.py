"""Client metrics of a broker without a metrics receiver: requests are answered and the metrics are dropped (KIP-714).

1. A subscription is a config resource: it selects clients, metrics and an interval. All subscriptions that match a
   client together give it a subscription id, which the client sends when it pushes metrics.
2. A client asks for its subscriptions, then pushes metrics. A request before its interval has passed is throttled,
   unless the client was just told to ask again.
3. A broker without a receiver advertises neither API. Clients that use them anyway get Kafka 4.3.1's replies.

Source: KIP-714.
"""
