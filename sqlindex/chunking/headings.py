"""What a section that holds nothing but its heading may join."""

from __future__ import annotations

from sqlindex.model.documents import Section, SectionKind


def is_direct_descendant(section: Section, parent: Section) -> bool:
    """Whether `section`, the next one after `parent`, lies under the heading of `parent`."""
    depth = len(parent.heading_path)
    return (
        section.kind is SectionKind.BODY
        and len(section.heading_path) > depth
        and section.heading_path[:depth] == parent.heading_path
    )
