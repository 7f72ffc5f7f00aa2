"""Computes how many machines, partitions and disks a rate of spans needs, from measured costs (docs/scaling.md)."""
