"""The command line: ``socratic fit``, ``predict``, ``evaluate``, ``info`` and ``demo``."""
