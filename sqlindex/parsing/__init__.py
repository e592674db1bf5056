"""Parsing: adapters that find sections, links and metadata in a decoded text."""
