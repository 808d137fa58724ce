// Package files is the trainer adapter that has no trainer: the data set in the run folder is the result, and the job
// is done the moment it is submitted. It is what a run uses when it names no adapter, and the way to look at a data set
// before it is sent anywhere.
package files
