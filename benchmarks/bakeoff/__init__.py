"""A comparison of rolin, with nothing tuned, with the libraries that a user would choose instead."""
