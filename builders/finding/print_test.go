package finding

import (
	"strings"
	"testing"
)

func TestGitHub(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Finding
		want string
	}{
		{
			"place",
			Finding{File: "a,b.yml", Line: 2, Column: 3, EndColumn: 5, Code: "NG1", Severity: Error, Message: "bad"},
			"::error title=NG1,file=a%2Cb.yml,line=2,col=3,endColumn=5::bad\n",
		},
		{
			"fix",
			Finding{File: "a.yml", Code: "NG1", Severity: Note, Message: "bad", Fix: "drop 5 %"},
			"::notice title=NG1,file=a.yml::bad%0Afix: drop 5 %25\n",
		},
		{
			"command line",
			Finding{File: CommandLine, Line: 1, Code: "NG2", Severity: Warning, Message: "bad"},
			"::warning title=NG2::bad\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if err := GitHub(&b, []Finding{c.f}); err != nil || b.String() != c.want {
				t.Errorf("got %q, %v; want %q", b.String(), err, c.want)
			}
		})
	}
}
