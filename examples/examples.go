package examples

import "embed"

// Python is the folder python-builder.
//
//go:embed python-builder/best_of_n.py python-builder/test_best_of_n.py python-builder/pyproject.toml
var Python embed.FS
