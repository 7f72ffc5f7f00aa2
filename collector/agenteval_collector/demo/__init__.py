"""Sample agents, instrumented for real: nothing goes in, spans come out. `cli/demo.py` runs them with a collector."""
