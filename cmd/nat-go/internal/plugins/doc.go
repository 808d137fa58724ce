// Package plugins finds third parties' plugins, pins them in nat-go.lock, and writes new ones.
//
// A plugin is found by its path in the configuration, else as nat-go-builder-NAME in the user's plugin folder
// (~/.config/nat-go/plugins), else on PATH. The lock file lies beside the configuration: name, version, checksum for
// each platform, protocol and a digest of the builders' settings, and those settings' schemas, so that `validate` need
// not start what is locked. What doesn't agree with the lock is refused; the error says how to accept it.
package plugins
