// Package plugins finds third-party plugins, pins them in nat-go.lock, and writes new ones.
//
// A plugin is located by the path or Python module in the configuration. If neither is given, nat-go looks for
// nat-go-builder-NAME or NAME in the user's plugin folder (~/.config/nat-go/plugins), and then for
// nat-go-builder-NAME on PATH. The lock file is next to the configuration. It records each plugin's name, version,
// checksum for each platform, protocol, a digest of the builders and their settings, and the settings' schemas, so
// that `validate` doesn't have to start locked plugins. A plugin that doesn't match the lock file is rejected with an
// error that explains how to accept it.
package plugins
