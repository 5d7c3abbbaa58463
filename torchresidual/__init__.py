"""Residual connections for PyTorch: Record saves a tensor, Apply brings it back."""
