"""Judges that are asked over a wire: the port, and one file for each that there is."""
