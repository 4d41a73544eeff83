"""The classes of assignors, for the argument `partition_assignment_strategy` of KafkaConsumer.

1. A class stands for the assignor of its `name`, which the consumer runs itself.
"""
