"""The command line. Each verb gathers arguments, asks, prints, and leaves by an exit code."""
