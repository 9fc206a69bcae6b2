"""What a person runs beside the workflow, a package for each. May import every room; nobody imports it."""
