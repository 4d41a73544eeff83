"""Clients by TLS and SASL, of several libraries: each prints what it reads, or the error that it gets."""
