"""The documentation as tests: examples run, links resolve, generated pages are up to date."""
