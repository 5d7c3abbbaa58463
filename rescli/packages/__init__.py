"""Which packages are installed, and whether one of them stands in the way of ours."""
