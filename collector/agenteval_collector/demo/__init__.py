"""Sample agents with real instrumentation: nothing goes in, spans come out. `cli/run_demo.py` runs them."""
