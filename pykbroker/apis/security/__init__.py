"""Authentication, ACLs, SCRAM credentials and delegation tokens.

1. What this broker cannot do yet is refused with the error that Kafka gives where it is switched off.
"""
