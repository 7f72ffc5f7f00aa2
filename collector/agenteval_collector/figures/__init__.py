"""Figures: what is stored goes in; reliability, regressions, quality, hit rates and problems come out.

Pure: nothing here reads a database, waits, or writes.
"""
