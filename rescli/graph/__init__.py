"""What a block is made of: the Record/Apply graph, its layers and their cost."""
