"""Script that converts Autobahn's test cases to Python 3: `convert.py SDIST FOLDER`.

The script runs in .venv-autobahn and writes only there. This repository contains no files of the Autobahn suite.
"""

import ast
import io
import sys
import tarfile
from lib2to3.refactor import RefactoringTool, get_fixers_from_package
from pathlib import Path

CASES = "/autobahntestsuite/case/"
# Cases about compression, which the server does not negotiate (promise T8 in docs/reliability.md).
COMPRESSION = ("case12", "case13")


class _AsBefore(ast.NodeTransformer):
    """AST transformer that keeps the behaviour of Python 2.

    It keeps integer division and old-style classes.
    """

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return ast.BinOp(node.left, ast.FloorDiv(), node.right) if isinstance(node.op, ast.Div) else node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        match node.elts:
            case [ast.Name("object"), *others] if others:
                return ast.Tuple(others, node.ctx)
        return node


def main(archive: str, folder: str) -> None:
    """Convert the test cases in an archive, and write the package ``case`` into a folder."""
    tool = RefactoringTool(get_fixers_from_package("lib2to3.fixes"))
    target = Path(folder) / "case"
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as files:
        for member in files:
            name = member.name.rpartition("/")[2]
            if CASES not in member.name or not name.endswith(".py") or name.startswith(COMPRESSION):
                continue
            content = files.extractfile(member)
            assert content is not None
            # Decode each byte to one character, because Python 2 strings contain bytes.
            text = io.TextIOWrapper(content, encoding="latin-1").read().replace("\t", "   ")
            # Rewrite the relative imports here, because lib2to3's fixer requires that the package is on disk.
            lines = [
                line.replace("from case", "from .case", 1) if line.startswith("from case") else line
                for line in text.splitlines()
            ]
            tree = ast.parse(str(tool.refactor_string("\n".join(lines) + "\n", name)))
            (target / name).write_text(ast.unparse(ast.fix_missing_locations(_AsBefore().visit(tree))))


if __name__ == "__main__":
    main(*sys.argv[1:])
