// Package same guards the output of users' runs against changes of the program's structure: it does a fixed set of jobs
// in every way that a run can be made and compares hashes of the outputs with a committed file.
package same
