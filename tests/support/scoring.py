"""Evaluation and sessions on a real store, a batch at a time, without threads or ports."""
