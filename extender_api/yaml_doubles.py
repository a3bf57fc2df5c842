"""YAML that refuses a key given twice; plain YAML takes the last one in silence."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class NoDoubles(yaml.constructor.SafeConstructor):
    """Stands before a loader class among the bases of a new one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Raises MarkedYAMLError naming the key and its line."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
