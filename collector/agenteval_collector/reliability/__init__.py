"""Reliability: traces of runs and run reports go in. Figures over runs come out."""
