"""Runs a notebook from its first cell to its last: python run_notebook.py NOTEBOOK.ipynb

Results are written to a folder that is forgotten. A cell that fails ends the program with its error."""

from __future__ import annotations

import pathlib
import sys
import tempfile

import nbformat
from nbclient import NotebookClient

SECONDS = 900

path = pathlib.Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
with tempfile.TemporaryDirectory() as folder:
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}}).execute()
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
print(f"{path.name}: {len(cells)} cells ran")
