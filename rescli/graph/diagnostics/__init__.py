"""What a reader should know about a block: one function for each kind of finding, one file for each topic."""
