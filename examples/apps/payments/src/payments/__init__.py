"""Has payments charged by the bank."""
