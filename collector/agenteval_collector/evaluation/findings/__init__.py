"""Observe facts in complete traces, without a judge.

In: a `Trace`, or the effort of an agent's last sessions. Out: findings, what of a trace could be looked at, and what of
an effort is unusual. Pure.
"""
