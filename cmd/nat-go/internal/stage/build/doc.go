// Package build is the stage that builds records: it sends the examples of the inputs to the builders' processes, and
// writes what they return to the record log. It also joins the logs of shards and of finished runs.
package build
