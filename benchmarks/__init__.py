"""Benchmarks of the pipeline, in ratios that repeat on any machine. benchmarks/README.md says how to read them."""
