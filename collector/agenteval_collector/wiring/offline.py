"""The collector's parts from the evaluation on, in the calling thread: nothing listens, waits or counts."""
