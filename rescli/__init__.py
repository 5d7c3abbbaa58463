"""See, benchmark and thread-test residual networks written with Record and Apply."""

__version__ = "0.1.0"
