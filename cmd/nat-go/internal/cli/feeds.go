package cli

import (
	_ "embed"
	"sync"

	"gopkg.in/yaml.v3"
)

// feed describes which part of a record a trainer actually trains on, given the form in which the record reaches it.
type feed struct {
	Record   string `json:"record"`
	Format   string `json:"format"` // a text format by name, or a channel of token batches
	Trainer  string `json:"trainer"`
	Trains   string `json:"trains"`   // the tokens in its loss
	Lost     string `json:"lost"`     // fields that the form can't carry
	Verified string `json:"verified"` // how we know
}

//go:embed feeds.yaml
var feedsFile []byte

// feeds returns the parts of records that each trainer trains on.
var feeds = sync.OnceValue(func() []feed {
	var file struct{ Feeds []feed }
	if err := yaml.Unmarshal(feedsFile, &file); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return file.Feeds
})
