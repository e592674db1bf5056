"""Fusion: several rankings become one."""
