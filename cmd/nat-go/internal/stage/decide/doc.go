// Package decide is the stage that decides which records of a log are used, and on which side of the split.
package decide
