"""Nothing outside a scheme's own file asks which scheme it is."""

import ast

import pytest
from conftest import ROOT

from residual_fairseq import REGISTRY

FILES = [
    path
    for folder in ("residual_fairseq", "scripts", "data_prep", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.parent.name != "connections"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_scheme_is_asked_for_by_name(path):
    asked = [
        f"line {node.lineno}: {constant.value}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and constant.value in list(REGISTRY)
    ]
    assert asked == []
