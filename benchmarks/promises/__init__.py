"""What the documentation promises, measured: one module for each promise."""
