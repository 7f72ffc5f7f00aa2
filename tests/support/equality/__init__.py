"""A harness of equality: what users see of a tree of the project, as documents to compare with those of another tree.

The documents are what `agenteval replay --json` prints of recordings and conversations, the description of the API,
the series of a scrape, and, if asked for, the instructions per span. The tree's own command makes them. What it is
given is made by the tree that the harness belongs to, so both trees are given the same.
"""
