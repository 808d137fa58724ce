// Package build is the stage that builds records. It sends the examples of the inputs to the builders' processes, and
// writes their output to the record log. It also joins the logs of shards and of finished runs.
package build
