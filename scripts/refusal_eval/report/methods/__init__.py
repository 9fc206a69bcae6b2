"""The methods section of a study, with its bibliography."""
