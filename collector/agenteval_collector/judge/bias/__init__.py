"""Whether the judge looks at what must not matter: asked again about the same traces, each changed in one such way."""
