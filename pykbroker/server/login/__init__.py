"""The log-in of clients on listeners with SASL: what a connection does until its client has logged in.

1. A connection looks each request up in a table. Before the log-in, and while a session has a lifetime, the table is a
   `SaslTable` of its own, and afterwards that of the listener: an authenticated client without a lifetime pays nothing.
2. What is decided, is decided in `core/security/sasl`. This package reads tokens, writes answers, and keeps limits.
3. A client that has not logged in has `LOGIN_S_MAX` seconds, and all of them together a share of the memory budget.
"""
