"""Examples, each a script."""
