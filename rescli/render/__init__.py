"""Results to text: one file a format, pure functions that return strings."""
