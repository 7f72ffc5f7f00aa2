"""Make problems of failures that recur. A problem is one thing, however often it happens.

Findings and judged failures go in. Out come the problem of each, and the state of a problem. The package is pure; the
store keeps the problems.
"""
