"""Embedders and the models they run: obtained once, pinned by hash, staged in a cache folder.

Nothing here is chosen, downloaded or loaded by itself: `staging.install_model` runs when it is
called, and an embedder is made by the host.
"""
