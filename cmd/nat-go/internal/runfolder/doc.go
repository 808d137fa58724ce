// Package runfolder owns a run's folder, <output_dir>/<run_id>. This includes the names of its files, the manifest, the
// lock, and the search for runs. Its files refer to each other by relative paths, so that the folder can be moved.
package runfolder
