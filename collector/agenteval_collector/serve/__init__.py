"""Serve: requests of people and programs go in; documents, pages and accepted writes come out.

doors   finds out who calls, and what they may do
api     answers with documents, and takes labels and reports
web     draws the documents as pages
"""
