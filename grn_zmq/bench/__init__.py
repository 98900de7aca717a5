"""Measures how fast this installation is, beside a bare ZeroMQ echo in the same run."""
