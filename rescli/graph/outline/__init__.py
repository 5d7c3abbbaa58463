"""What a reader gets of a block: all rows, or those down to a depth, with equal neighbours folded."""
