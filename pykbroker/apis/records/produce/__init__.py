"""Produce: append one record batch to each partition. `Produce` takes each batch through three steps.

1. `admit` decides who may write what, before anything is appended. It does not wait: `Produce` awaits the coordinator.
2. `append` appends one batch to one partition, at once or off the event loop. It must not know who may write.
3. `settle` waits for the flush and for followers, and turns errors into results. It must not know how a batch was
   appended.
4. Admission and append know nothing of each other, and only `produce` knows all steps.
"""
