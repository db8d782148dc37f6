"""Layers that learn their pattern, and the surgery that puts them into a network."""
