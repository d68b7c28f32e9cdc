"""Experiments that measure how well circuits and other models know what they do not know."""
