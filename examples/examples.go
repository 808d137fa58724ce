package examples

import "embed"

// Python holds the files of the folder python-builder that a new plugin starts from.
//
//go:embed python-builder/best_of_n.py python-builder/test_best_of_n.py python-builder/pyproject.toml
var Python embed.FS
