// Package intake examines a user's files before a run: how they are read, what is in them, what each builder would make
// of them, and so which builder and row format to choose. What `nat-go inspect` shows, `nat-go init` writes down and a
// run without a configuration does is one and the same Report.
package intake
