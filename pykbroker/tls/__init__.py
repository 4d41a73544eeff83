"""Keystores and truststores, and the contexts of TLS that are made of them.

1. What a listener's configs say is `core.config.tls_settings`; the pump of its connections is in `world`.
2. All that is wrong with a store is found before its context is used, and said in a sentence with the config and the
   file (StartError). A reload that finds something wrong therefore leaves the old context as it is.
3. `cryptography` is imported only for stores of type PKCS12 and JKS. All else needs the standard library alone.
4. A private key is written to no disk: OpenSSL reads it from a file in memory, or from one that is removed at once.
"""
