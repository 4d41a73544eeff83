"""The handlers of all APIs, built from the parts of a broker. One file builds one family of `pykbroker.apis`.

1. A handler receives the parts that it uses as keyword arguments, and nothing else.
2. The first request to one of a family's APIs imports the family, if `deferred` lists it. A start imports the others.
3. The ApiVersions handler describes all other handlers, so it is built last.
"""
