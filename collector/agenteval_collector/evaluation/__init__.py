"""Evaluation: complete traces go in, committed outcomes and findings come out."""
