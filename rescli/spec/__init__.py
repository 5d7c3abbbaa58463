"""From a TARGET on the command line to a block and its input."""
