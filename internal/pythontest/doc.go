// Package pythontest finds a Python for tests that need one, and sets one up if requested. It is only for this
// module's tests.
//
// NATGO_REQUIRE is a comma-separated list of dependencies whose absence must not skip tests, such as python (python3
// with the packages of .ci/requirements.txt), pythons (3.10 to 3.13), torch, trl, transformers or notebook (nbmake
// next to trl). torch is optional because it is large.
package pythontest
