"""Sessions: outcomes of traces go in. The session of each trace and the scores of sessions come out."""
