"""Recorded assignments of Kafka's own assignors."""
