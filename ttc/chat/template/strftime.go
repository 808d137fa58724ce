package template

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time as Python's datetime.strftime does under glibc in the C locale. The time has no zone.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		for i < len(format)-1 && strings.IndexByte("-_0^#", format[i]) >= 0 {
			flag = format[i]
			i++
		}
		if s, ok := directive(t, format[i], flag); ok {
			b.WriteString(s)
		} else {
			b.WriteString(format[start : i+1])
		}
	}
	return b.String()
}

func directive(t time.Time, c, flag byte) (string, bool) {
	if s, ok := numberDirective(t, c, flag); ok {
		return s, true
	}
	s, ok := textDirective(t, c)
	switch {
	case flag == '^':
		s = strings.ToUpper(s)
	case flag == '#' && c == 'p':
		s = strings.ToLower(s)
	case flag == '#':
		s = strings.ToUpper(s)
	}
	return s, ok
}

// numberDirective formats a numeric directive; the flag determines the padding.
func numberDirective(t time.Time, c, flag byte) (string, bool) {
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	monday := (int(t.Weekday()) + 6) % 7
	pad := byte('0')
	n, width := 0, 2
	switch c {
	case 'd':
		n = t.Day()
	case 'e':
		n, pad = t.Day(), ' '
	case 'm':
		n = int(t.Month())
	case 'y':
		n = t.Year() % 100
	case 'C':
		n = t.Year() / 100
	case 'Y':
		n, width = t.Year(), 1
	case 'H':
		n = t.Hour()
	case 'k':
		n, pad = t.Hour(), ' '
	case 'I':
		n = hour12
	case 'l':
		n, pad = hour12, ' '
	case 'M':
		n = t.Minute()
	case 'S':
		n = t.Second()
	case 'j':
		n, width = t.YearDay(), 3
	case 'w':
		n, width = int(t.Weekday()), 1
	case 'u':
		n, width = monday+1, 1
	case 'U':
		n = (t.YearDay() + 6 - int(t.Weekday())) / 7
	case 'W':
		n = (t.YearDay() + 6 - monday) / 7
	case 'V':
		n = isoWeek
	case 'G':
		n, width = isoYear, 1
	case 'g':
		n = isoYear % 100
	default:
		return "", false
	}
	return padded(n, width, pad, flag), true
}

// padded formats a number; the flag wins over width and pad.
func padded(n, width int, pad, flag byte) string {
	switch flag {
	case '-':
		width = 1
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	s := fmt.Sprint(n)
	return strings.Repeat(string(pad), max(0, width-len(s))) + s
}

func textDirective(t time.Time, c byte) (string, bool) {
	switch c {
	case 'a':
		return t.Format("Mon"), true
	case 'A':
		return t.Format("Monday"), true
	case 'b', 'h':
		return t.Format("Jan"), true
	case 'B':
		return t.Format("January"), true
	case 'p':
		return t.Format("PM"), true
	case 'P':
		return strings.ToLower(t.Format("PM")), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'z', 'Z':
		return "", true
	case 'c':
		return strftime(t, "%a %b %e %H:%M:%S %Y"), true
	case 'x', 'D':
		return strftime(t, "%m/%d/%y"), true
	case 'X', 'T':
		return strftime(t, "%H:%M:%S"), true
	case 'F':
		return strftime(t, "%Y-%m-%d"), true
	case 'R':
		return strftime(t, "%H:%M"), true
	case 'r':
		return strftime(t, "%I:%M:%S %p"), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	}
	return "", false
}
