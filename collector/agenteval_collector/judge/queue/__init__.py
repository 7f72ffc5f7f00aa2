"""The queue of traces that wait for the judge. In go jobs from any thread, out come their judgements."""
