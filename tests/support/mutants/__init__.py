"""Mutants: defects that a person wrote down, each with the test that fails if the code has it."""
