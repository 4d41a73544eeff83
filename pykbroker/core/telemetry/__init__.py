"""Metrics that clients push, as a broker has it into which no receiver of them is plugged: answered, then dropped.

1. A subscription is a config resource: which clients push which metrics, how often. What a client has of all that match
   it makes its subscription id, which it shows when it pushes.
2. A client asks, pushes, and is early if it does either again within its interval, unless it was just told to ask anew.
3. A broker without a receiver advertises neither API; what it answers who asks all the same was asked of Kafka 4.3.1.

Source: KIP-714.
"""
