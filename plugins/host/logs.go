package host

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

const (
	maxLineBytes = 256 << 10 // of a plugin's output; the rest of a longer line is cut
	tailBytes    = 64 << 10
	tailLines    = 20
	linesPerSec  = 500 // written to the log; more are counted
)

// logPump turns what a process prints into log lines. It always drains, whatever is printed.
type logPump struct {
	mu         sync.Mutex
	log        zerolog.Logger
	tail       []string // the last lines, oldest first
	tailSize   int
	inError    bool // within a stack trace
	window     time.Time
	inWindow   int
	suppressed int
}

func newLogPump(log zerolog.Logger) *logPump { return &logPump{log: log} }

// setLog changes where lines go: the process id is known only after the first of them may have come.
func (p *logPump) setLog(log zerolog.Logger) {
	p.mu.Lock()
	p.log = log
	p.mu.Unlock()
}

// warn writes a line of our own to the log.
func (p *logPump) warn(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Warn().Msg(message)
}

// drain reads lines until the end.
func (p *logPump) drain(r io.Reader, stream string) {
	lines := newLineReader(r)
	for {
		line, err := lines.next()
		if len(line) > 0 {
			p.line(line, stream)
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reportSuppressed()
}

// lastLines returns the end of what was printed.
func (p *logPump) lastLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.tail), tailLines)
	return append([]string(nil), p.tail[len(p.tail)-n:]...)
}

func (p *logPump) line(line []byte, stream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	level, message, fields := parseLine(line)
	p.keep(message)
	if fields == nil {
		switch {
		case startsTrace(message):
			p.inError = true
			level = zerolog.ErrorLevel
		case p.inError:
			level = zerolog.ErrorLevel
		}
	} else {
		p.inError = false
	}
	now := time.Now()
	if now.Sub(p.window) >= time.Second {
		p.reportSuppressed()
		p.window, p.inWindow = now, 0
	}
	if p.inWindow++; p.inWindow > linesPerSec {
		p.suppressed++
		return
	}
	e := p.log.WithLevel(level).Str("stream", stream)
	for k, v := range fields {
		e = e.Interface(k, v)
	}
	e.Msg(message)
}

func (p *logPump) reportSuppressed() {
	if p.suppressed > 0 {
		p.log.Warn().Int("lines", p.suppressed).Msg("the plugin prints too much; lines left out of the log")
		p.suppressed = 0
	}
}

func (p *logPump) keep(line string) {
	const maxKept = 2 << 10
	if len(line) > maxKept {
		line = line[:maxKept] + "..."
	}
	p.tail = append(p.tail, line)
	p.tailSize += len(line)
	for p.tailSize > tailBytes || len(p.tail) > 4*tailLines {
		p.tailSize -= len(p.tail[0])
		p.tail = p.tail[1:]
	}
}

func startsTrace(line string) bool {
	for _, s := range []string{"panic: ", "fatal error: ", "Traceback (most recent call last)", "goroutine ", "SIGSEGV", "runtime: "} {
		if strings.HasPrefix(line, s) {
			return true
		}
	}
	return false
}

// parseLine reads a line of JSON as zerolog, hclog or Python's loggers write it, else plain text. fields is nil for text.
func parseLine(line []byte) (zerolog.Level, string, map[string]any) {
	if line[0] != '{' {
		return textLevel(line), string(line), nil
	}
	var m map[string]any
	if json.Unmarshal(line, &m) != nil || m == nil {
		return zerolog.DebugLevel, string(line), nil
	}
	level := zerolog.DebugLevel
	message := ""
	fields := map[string]any{}
	for k, v := range m {
		s, isText := v.(string)
		switch k {
		case "level", "@level", "levelname", "severity":
			if isText {
				level = namedLevel(s)
			}
		case "message", "@message", "msg":
			if isText && message == "" {
				message = s
			}
		case "time", "@timestamp", "timestamp", "ts", "stream":
		case "plugin", "pid", "incarnation", "error":
			fields["plugin_"+k] = v // ours are not to be overwritten
		default:
			fields[strings.TrimPrefix(k, "@")] = v
		}
	}
	if message == "" {
		message = string(line)
		clear(fields)
	}
	return level, message, fields
}

func textLevel(line []byte) zerolog.Level {
	for _, l := range []struct {
		prefix string
		level  zerolog.Level
	}{
		{"[TRACE]", zerolog.TraceLevel},
		{"[DEBUG]", zerolog.DebugLevel},
		{"[INFO]", zerolog.InfoLevel},
		{"[WARN]", zerolog.WarnLevel},
		{"[ERROR]", zerolog.ErrorLevel},
	} {
		if bytes.HasPrefix(line, []byte(l.prefix)) {
			return l.level
		}
	}
	return zerolog.DebugLevel
}

// namedLevel never returns a level that ends the host.
func namedLevel(s string) zerolog.Level {
	switch strings.ToLower(s) {
	case "trace":
		return zerolog.TraceLevel
	case "info":
		return zerolog.InfoLevel
	case "warn", "warning":
		return zerolog.WarnLevel
	case "error", "fatal", "panic", "critical":
		return zerolog.ErrorLevel
	}
	return zerolog.DebugLevel
}

// lineReader reads lines of bounded length: what is longer is cut and read over.
type lineReader struct {
	r     io.Reader
	buf   []byte // read, not yet given out
	start int
	skip  bool // within a line that was cut
	err   error
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: r, buf: make([]byte, 0, 8<<10)} }

// next returns a line without its end. The line is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.buf[l.start:], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+i]
			l.start += i + 1
			if l.skip {
				l.skip = false
				continue
			}
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if l.err != nil {
			line := l.buf[l.start:]
			l.start = len(l.buf)
			if l.skip {
				line = nil
			}
			return line, l.err
		}
		if len(l.buf)-l.start >= maxLineBytes {
			line := append([]byte(nil), l.buf[l.start:]...)
			l.buf, l.start = l.buf[:0], 0
			if l.skip {
				continue
			}
			l.skip = true
			return append(line, " [cut]"...), nil
		}
		l.fill()
	}
}

func (l *lineReader) fill() {
	l.buf = append(l.buf[:0], l.buf[l.start:]...)
	l.start = 0
	if cap(l.buf)-len(l.buf) < 4<<10 {
		l.buf = append(make([]byte, 0, 2*cap(l.buf)), l.buf...)
	}
	n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
	l.buf, l.err = l.buf[:len(l.buf)+n], err
}

// syncWriter takes what go-plugin forwards of the plugin's os.Stdout and os.Stderr.
type syncWriter struct {
	pump   *logPump
	stream string
	buf    []byte
}

func (w *syncWriter) Write(b []byte) (int, error) {
	w.buf = append(w.buf, b...)
	for {
		i := bytes.IndexByte(w.buf, '\n')
		if i < 0 {
			break
		}
		if i > 0 {
			w.pump.line(w.buf[:i], w.stream)
		}
		w.buf = append(w.buf[:0], w.buf[i+1:]...)
	}
	if len(w.buf) > maxLineBytes {
		w.pump.line(w.buf, w.stream)
		w.buf = w.buf[:0]
	}
	return len(b), nil
}

// hostLogger gives go-plugin's own messages to zerolog, at debug: what they report is reported by us.
func hostLogger(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	if log.GetLevel() <= zerolog.DebugLevel {
		l.RegisterSink(&hostSink{log})
	}
	return l
}

type hostSink struct{ log zerolog.Logger }

// Accept is called by hclog, possibly from several goroutines.
func (s *hostSink) Accept(name string, _ hclog.Level, msg string, args ...any) {
	e := s.log.Debug().Str("from", "go-plugin")
	for i := 0; i+1 < len(args); i += 2 {
		if k, ok := args[i].(string); ok && k != "plugin" {
			e = e.Interface(k, args[i+1])
		}
	}
	e.Msg(strings.TrimSpace(name + " " + msg))
}
