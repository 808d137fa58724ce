// Package runfolder manages a run's folder, <output_dir>/<run_id>. It defines the names of the folder's files, reads
// and writes the manifest, locks the folder, and finds runs. The files refer to each other by relative paths, so that
// the folder can be moved.
package runfolder
