"""Sources: where documents come from. Nothing is indexed that no source lists."""
