"""Benchmarks: `python -m bench NAME [--n N] [--json] [--save]`. See bench/README.md."""
