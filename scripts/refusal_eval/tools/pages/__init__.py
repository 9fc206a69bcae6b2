"""Pages that are generated from the catalogue and the schema."""
