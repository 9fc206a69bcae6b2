"""A finished study computed again and compared."""
