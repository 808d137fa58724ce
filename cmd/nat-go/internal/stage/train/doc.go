// Package train is the stage that hands a data set to a trainer and waits for its job.
package train
