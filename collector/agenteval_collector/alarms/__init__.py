"""Scored traces in, alarms out: what goes wrong with an agent now, compared with its own past or with an objective.

One thread looks every few seconds at the traces that were scored since the last look. Nothing is done for each span.
"""
