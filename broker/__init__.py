"""The broker: one process, one poll loop around a pure core."""
