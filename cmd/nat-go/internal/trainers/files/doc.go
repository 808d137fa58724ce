// Package files is the trainer adapter without a trainer. The data set in the run folder is the result, and the job is
// done as soon as it is submitted. A run that doesn't name an adapter uses it. It is also useful for examining a data
// set before sending it anywhere.
package files
