"""The questions to the judge: what it is told, what it is shown, and what its replies mean.

The scoring guides say in our own words what PandaProbe publishes for each metric ("Metrics"). A question's `VERSION`
rises with every change of its instructions, its schema, or the way its data is rendered.
"""
