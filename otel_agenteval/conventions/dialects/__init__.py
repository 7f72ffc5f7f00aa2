"""The dialects. Each module holds one subclass of `dialect.Dialect`. `registry` finds them; nothing else names them."""
