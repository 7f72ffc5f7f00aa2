"""The questions to the judge: their instructions, the data they show, and the reading of their replies.

The scoring guides say in our own words what PandaProbe publishes for each metric ("Metrics"). A question's `VERSION`
rises with every change of its instructions, its schema, or the way its data is rendered.
"""
