"""What a study costs before it runs: requests, tokens, hours, disk, terms."""
