"""Speed beside other libraries: ``python -m benchmarks.peers --device cpu`` (or ``cuda``), then ``page``."""
