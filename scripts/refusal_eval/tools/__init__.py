"""Commands for people, a package for each. They may import every room, and no room imports them."""
