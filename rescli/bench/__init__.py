"""How long a block takes: calibrated, interleaved samples and their statistics."""
