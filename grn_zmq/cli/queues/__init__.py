"""Queues with declared resources: how they are named, written, read and shown."""
