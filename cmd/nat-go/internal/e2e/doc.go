// Package e2e has the common parts of the end-to-end tests in the packages below it. They run the program as a user
// would; none of them links it. It is built once, with a plugin of a third party, and NATGO_E2E names the folder of the
// two. Where the variable isn't set, each package builds them for itself.
//
// The packages scripts and pages are part of `make test`, all others of `make verify`.
package e2e
