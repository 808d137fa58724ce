package template

import (
	"cmp"
	"strings"
	"time"
)

// directives maps the directives that chat templates use to Go's layouts.
var directives = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05",
}

// strftime formats a time as Python's datetime.strftime does. A minus after the percent sign drops a leading zero.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for format != "" {
		text, rest, found := strings.Cut(format, "%")
		b.WriteString(text)
		if !found {
			break
		}
		directive, short := strings.CutPrefix(rest, "-")
		layout := ""
		if directive != "" {
			layout = directives[directive[0]]
		}
		switch {
		case rest != "" && rest[0] == '%':
			b.WriteByte('%')
		case layout == "":
			throwUnsupported("the directive %" + rest[:min(1, len(rest))] + " of strftime_now")
		case short:
			padded := t.Format(layout)
			b.WriteString(cmp.Or(strings.TrimLeft(padded, "0 "), padded[len(padded)-1:]))
		default:
			b.WriteString(t.Format(layout))
		}
		format = directive[1:]
	}
	return b.String()
}
