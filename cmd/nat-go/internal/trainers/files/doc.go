// Package files is the trainer adapter without a trainer: the data set in the run folder is the result, and the job is
// done the moment it is submitted. A run that names no adapter uses it, which also serves to examine a data set before
// sending it anywhere.
package files
