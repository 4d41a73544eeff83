"""One file for each API, a folder for each family: a frozen class with its key, its versions and what it depends on.

1. A handler authorises, asks the right part of the broker, and shapes the response; it keeps no state of its own.
2. What fails for one topic or partition is an error code in its place, and the others go through.
3. API files do not import each other, also not across families.
"""
