"""Layered circuits (:class:`~socratic.Circuit`): evaluated layer by layer, regions of one shape together."""
