"""What a block is: its layers, its skips, what they cost and what is wrong with them."""
