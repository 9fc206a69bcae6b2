"""What the rules in workflow/rules/ ask about a study: input files, params, resources. No script imports this."""
