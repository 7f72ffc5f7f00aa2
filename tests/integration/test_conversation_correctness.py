"""What a session's traces say together: its course, and how often it was correct by ground truth."""
