// Package same guards the output of users' runs against changes to the program's structure. It runs a fixed set of jobs
// in every way that a run can be executed, and compares hashes of the outputs with a committed file.
package same
