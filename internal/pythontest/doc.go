// Package pythontest finds a Python for tests that consult another program, and sets one up if requested. It is for
// this module's tests and not promised to others.
//
// NATGO_REQUIRE is a comma-separated list of what a test must not be skipped for: python (python3 with the packages of
// .ci/requirements.txt), pythons (3.10 to 3.13), torch, trl, transformers, notebook (nbmake beside trl). torch is
// large, and most machines have no use for it.
package pythontest
