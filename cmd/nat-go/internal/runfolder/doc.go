// Package runfolder owns a run's folder, <output_dir>/<run_id>: the names of its files, the manifest, the lock, and how
// runs are found. Paths inside are relative, so that a folder can be moved.
package runfolder
