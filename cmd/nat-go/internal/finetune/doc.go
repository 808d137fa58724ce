// Package finetune is the run: from a configuration and the output of an agent to a data set and a training job. Run is
// readable from top to bottom; the other files are its steps.
//
// What the steps hand on lies in the run folder: the record log after build, the decisions after curate, the data set
// after write. That is also what a later command goes on from.
package finetune
