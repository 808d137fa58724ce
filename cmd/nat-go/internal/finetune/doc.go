// Package finetune is the run: from a configuration and the output of an agent to a data set and a training job. Run
// can be read from top to bottom; the other files are its steps.
//
// The steps pass on their results in the run folder: the record log after build, the decisions after curate, the data
// set after write. Later commands continue from the same files.
package finetune
