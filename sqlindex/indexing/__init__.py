"""The write side: list, diff, build, publish."""
