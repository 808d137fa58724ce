package json_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// A stream is read value by value, each with its byte offset; NaN is accepted as a number, as in Python.
func Example() {
	stream := strings.NewReader("{\"id\": 7, \"score\": NaN}\n{\"id\": 8, \"score\": 0.5}\n")
	r := json.NewReader(stream, json.Auto, json.Limits{})
	for {
		value, offset, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
		score, _ := value.Get("score")
		number, ok := score.Float64()
		fmt.Println(offset, string(score), number, ok)
	}
	// Output:
	// 0 NaN NaN true
	// 24 0.5 0.5 true
}

// An error says where it occurred and what was expected.
func ExampleParse() {
	_, err := json.Parse([]byte(`{"messages": [1, 2`), json.Limits{})
	fmt.Println(err)
	// Output: byte 18 (line 1): the input ends inside an object that begins at byte 0
}
