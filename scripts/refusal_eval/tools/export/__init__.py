"""A finished study in the forms that others read."""
