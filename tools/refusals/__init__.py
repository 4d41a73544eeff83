"""Recorders of what Kafka refuses: the responses of its classes, and the answers of a broker to every principal."""
