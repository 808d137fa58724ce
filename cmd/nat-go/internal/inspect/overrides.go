package inspect

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// overridden returns the settings that overrides of the form PATH=VALUE specify for a section's entries, keyed by entry
// name and then by setting. It ignores overrides of nested keys, which take effect only in the configuration that is
// made from the input.
func overridden(overrides []string, section string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range overrides {
		path, text, ok := strings.Cut(o, "=")
		parts := strings.Split(path, ".")
		if !ok || len(parts) != 3 || parts[0] != section {
			continue
		}
		var value any
		if yaml.Unmarshal([]byte(text), &value) != nil {
			continue // the invalid value is reported when the configuration is checked
		}
		if out[parts[1]] == nil {
			out[parts[1]] = map[string]any{}
		}
		out[parts[1]][parts[2]] = value
	}
	return out
}

// sourceName is the name of the source in a configuration that is made from an input.
const sourceName = "runs"
