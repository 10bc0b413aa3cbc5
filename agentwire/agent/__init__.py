"""The agent: the turn it works with, its calls, and the built-in loop over a model."""
