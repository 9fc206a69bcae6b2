"""The lock file of a study: asking the hub for every commit and file, writing them down, and telling what differs."""
