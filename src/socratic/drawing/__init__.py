"""Circuits for people to look at: pictures of small ones, text summaries of any."""

from socratic.drawing.diagram import draw
from socratic.drawing.picture import Picture
from socratic.drawing.summary import Summary, summary

__all__ = ["Picture", "Summary", "draw", "summary"]
