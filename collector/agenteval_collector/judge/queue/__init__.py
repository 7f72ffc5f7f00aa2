"""The queue of traces that wait for the judge. It takes jobs from any thread, and delivers their judgements."""
