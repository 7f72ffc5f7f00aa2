"""The composition root: from settings to a running collector. The only package that names adapters."""
