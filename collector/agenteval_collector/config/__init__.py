"""The settings. They have types, are frozen, and are checked at the start. Their defaults are in this package alone.

The sources are the defaults, a YAML file, `AGENTEVAL_*` environment variables (`__` between levels), and command-line
flags. Each source wins over those before it. A key that does not exist is an error that names the key.
"""
