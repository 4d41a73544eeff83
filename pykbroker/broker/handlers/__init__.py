"""The handlers of all APIs, built from the parts of a broker: one file for each family of `pykbroker.apis`.

1. A handler is given the parts that it uses by keyword, and nothing else.
2. ApiVersions is computed from all other handlers, so it is built last.
"""
