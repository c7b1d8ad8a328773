"""From a graph to its text."""
