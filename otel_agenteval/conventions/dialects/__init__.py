"""The dialects, one module each: a class of `dialect.Dialect`, found by `registry`. Nothing else names them."""
