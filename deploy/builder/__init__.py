"""Builds the files below `deploy` that follow from others: `python -m deploy.builder` (`make deploy`)."""
