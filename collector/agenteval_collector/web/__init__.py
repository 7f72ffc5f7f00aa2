"""The page: sessions, a session, a trace; rendered on the server, without scripts."""
