package main

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/sdk"
)

func main() {
	sdk.Serve(sdk.Plugin{Name: "length-dpo", Version: "1.0.0", Builders: []sdk.Factory{
		sdk.New(builders.Info{
			Name: "length_controlled", Stability: "beta", Doc: "preference pairs of answers of similar length",
			Kinds: []builders.Kind{builders.KindPreference},
		}, newBuilder),
	}})
}
