"""Side by side with the raw limit, and with what users would pick instead."""
