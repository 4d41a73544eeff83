"""APIs about authentication, ACLs, SCRAM credentials and delegation tokens.

1. An unsupported feature is refused with the error that Kafka returns when the feature is switched off.
"""
