// Package e2e contains the shared parts of the end-to-end tests in the packages below it. They run the program as a
// user would, without linking it. The program is built once, together with a third-party plugin, and NATGO_E2E names
// the folder that contains both. If the variable isn't set, each package builds its own.
//
// Packages scripts and pages are part of `make test`; all others are part of `make verify`.
package e2e
