"""The handlers of the Kafka APIs: one file for each API, one folder for each family, and one table.

An API that takes several steps is a package. Its API file has the name of the package, and its other files are steps.
The table has the APIs whose requests are only passed to the controller (`controller_apis`).
A handler is a frozen class that is named as the API is, and whose fields are its dependencies. The docstring of its
file names the API with its key and versions, then what each version added ("v2 flexible").

1. A handler checks the rights that depend on a name in the request, and calls the part of the broker that owns the
   data and keeps the state. `server/guard.py` has checked the right for the request as a whole.
2. A topic or partition that fails gets an error code in its own result. Other topics and partitions succeed.
3. API files do not import each other, not even across families.
"""
