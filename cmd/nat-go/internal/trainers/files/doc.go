// Package files is the trainer adapter without a trainer. The data set in the run folder is the result, and the job
// is done as soon as it is submitted. It is the default for runs that don't name an adapter, and is also useful for
// examining a data set before submitting it.
package files
