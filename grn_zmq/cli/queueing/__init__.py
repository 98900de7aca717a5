"""From a command line to jobs: options, grids, directives, and handing them over."""
