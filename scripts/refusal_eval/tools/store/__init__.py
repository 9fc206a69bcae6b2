"""What lies in the store, and what of it no study asks for."""
