// Package e2e has the common parts of the end-to-end tests in the packages below it. They run the program as a user
// would; none of them links it. The program is built once, together with a third-party plugin, and NATGO_E2E names the
// folder that contains both. If the variable isn't set, each package builds them for itself.
//
// The packages scripts and pages are part of `make test`, all others of `make verify`.
package e2e
