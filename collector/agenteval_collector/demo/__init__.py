"""Sample agents that need no input and emit spans by real instrumentation. `cli/run_demo.py` runs them."""
