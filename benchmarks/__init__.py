"""What the pipeline costs, as ratios that repeat on any machine; benchmarks/README.md says how to read them."""
