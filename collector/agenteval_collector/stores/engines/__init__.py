"""The databases that can hold a tenant's rows, one module for each. A module has only what its database does
differently.

The modules beside this folder write SQL that all of these databases understand.
"""
