"""Simulated clusters: whole brokers on machines of their own, clients that follow leaders and coordinators, and judges.

1. Broker 1 is also the controller. All other nodes are brokers only. Every partition has a replica on three brokers, if
   there are three, and two of them must be in sync.
2. Clients of all workloads use a `ClusterConnection`, which sends each request to the broker that serves it: the leader
   of a partition, or the coordinator of a group or a transaction.
3. A seed chooses a subset of the kinds of faults. Faults of machines, of links and of metadata strike at the same time.
4. The judges read the images and the replicas of running brokers, and never change them.

The package must not know groups, transactions or fetch sessions: a judge compares what brokers have with what Kafka
promises.
"""
