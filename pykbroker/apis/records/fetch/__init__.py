"""Fetch: return record batches from given offsets. `Fetch` answers consumers and followers in one chain.

1. The fetch session (`core/fetch`) names the partitions.
2. `locate` finds those that a consumer may read here. It must not know how they are read. A follower's session already
   knows its partitions (`replica/leading/follower_session`).
3. A `Reading` (`replica/partition/reading`) reads them, and waits for more if it finds too little.
4. The session leaves unchanged partitions out of the response. The response names the leader of a partition that
   another broker leads.
"""
