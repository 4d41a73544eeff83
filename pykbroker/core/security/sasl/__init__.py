"""SASL: the log-in of a client on its connection, as functions of tokens.

1. A mechanism takes the client's tokens and returns the broker's, and finally a user. Each log-in has a new exchange.
2. A table says what a connection does with each kind of request before the log-in is complete (`login.py`).
3. A client learns nothing about why its log-in failed that Kafka does not reveal, and not whether a SCRAM user exists.
4. Secrets have the type `Secret`, and are compared in constant time.

Sources: RFC 4616, RFC 5802, RFC 7677, KIP-43, KIP-84, KIP-152, KIP-368, and SaslServerAuthenticator, PlainSaslServer,
ScramSaslServer and ScramMessages of Apache Kafka 4.3.1.
"""
