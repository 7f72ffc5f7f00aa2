"""Several processes: the log, claims and news of a fleet on Kafka, and the composition of its processes.

Loaded with its extra, `kafka`, if `log.url` is set.
"""
