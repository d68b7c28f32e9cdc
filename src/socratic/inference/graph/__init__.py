"""Circuits of any shape (:class:`~socratic.Graph`): evaluated block by block."""
