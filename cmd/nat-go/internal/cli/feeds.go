package cli

import (
	_ "embed"
	"sync"

	"gopkg.in/yaml.v3"
)

// feed describes the part of a record that a trainer trains on, for one kind of record in one format.
type feed struct {
	Record   string `json:"record"`
	Format   string `json:"format"` // a text format by name, or a channel of token batches
	Trainer  string `json:"trainer"`
	Trains   string `json:"trains"`   // the tokens in the trainer's loss
	Lost     string `json:"lost"`     // parts of the record that the format can't hold
	Verified string `json:"verified"` // how this was verified
}

//go:embed feeds.yaml
var feedsFile []byte

// feeds returns the entries of feeds.yaml.
var feeds = sync.OnceValue(func() []feed {
	var file struct{ Feeds []feed }
	if err := yaml.Unmarshal(feedsFile, &file); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return file.Feeds
})
