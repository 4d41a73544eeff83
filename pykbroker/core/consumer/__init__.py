"""The pure half of the consumer: decisions about partitions. Nothing here waits, locks or reads a clock."""
