"""GPUs: which ones there are, which of them this user may take, and leases so that two jobs never take the same."""
