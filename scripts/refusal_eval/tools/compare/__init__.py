"""Two finished studies side by side."""
