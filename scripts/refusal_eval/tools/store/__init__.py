"""What lies in the store, and which of it no study asks for."""
