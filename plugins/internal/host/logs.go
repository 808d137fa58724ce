package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/secret"
)

const (
	maxLineBytes = 256 << 10 // maximum length of an output line; a longer line is only reported as too long
	tailBytes    = 64 << 10
	tailLines    = 20
	linesPerSec  = 500       // maximum number of lines logged per second; the rest are counted
	bytesPerSec  = 256 << 10 // maximum number of bytes of these lines per second
	maxLogged    = 16 << 10  // maximum length of a logged line
	maxKept      = 2 << 10   // maximum length of a plain-text line in the tail
	// Beyond these limits, reading pauses until the next second. This blocks a plugin that prints more, so that it
	// can't exhaust the host's CPU time. Output through go-plugin arrives in 1 KiB messages.
	linesReadPerSec = 20_000
	bytesReadPerSec = 12 << 20
)

// logPump turns a process's output into log lines. It drains all output.
type logPump struct {
	mu         sync.Mutex
	log        zerolog.Logger
	secrets    *secret.Values // secrets granted to the process, which may print them
	tail       []string       // the last lines, oldest first
	tailSize   int
	inError    bool // the last line belonged to a stack trace
	window     time.Time
	inWindow   int // number of lines read in this window
	bytes      int // number of bytes in these lines
	read       int // number of bytes of output read in this window, including incomplete lines
	suppressed int
	ended      chan struct{} // closed when the process has ended, which ends pauses
	// end records that the process has ended, after which its remaining output is read without pauses.
	end func()
}

func newLogPump(log zerolog.Logger, secrets *secret.Values) *logPump {
	p := &logPump{log: log, secrets: secrets, ended: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	return p
}

// count counts output that has been read. The caller holds the lock.
func (p *logPump) count(lines, bytes int) {
	if now := time.Now(); now.Sub(p.window) >= time.Second {
		p.reportSuppressed()
		p.window, p.inWindow, p.bytes, p.read = now, 0, 0, 0
	}
	p.inWindow += lines
	p.read += bytes
}

// pace counts output that has been read, and waits for the next second if the quota of the current one is exhausted.
func (p *logPump) pace(lines, bytes int) {
	p.mu.Lock()
	p.count(lines, bytes)
	enough := p.inWindow > linesReadPerSec || p.read > bytesReadPerSec
	wait := time.Until(p.window.Add(time.Second))
	p.mu.Unlock()
	if enough {
		within(p.ended, wait)
	}
}

// warn writes a line from the host to the log.
func (p *logPump) warn(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Warn().Msg(message)
}

// pacedReader paces output by bytes rather than lines, because output may contain no line breaks.
type pacedReader struct {
	r    io.Reader
	pump *logPump
}

func (p pacedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.pump.pace(0, n)
	return n, err
}

// drain reads lines until the end.
func (p *logPump) drain(r io.Reader, stream string) {
	for line, err := range lines.Read(pacedReader{r, p}, maxLineBytes) {
		p.handleLine(line, err, stream)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reportSuppressed()
}

// handleLine handles the result of reading a line.
func (p *logPump) handleLine(line []byte, err error, stream string) {
	blank := 0
	switch {
	case errors.As(err, new(*lines.TooLong)):
		p.line(fmt.Appendf(nil, "[cut] %v", err), stream)
	case err == nil:
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			p.line(line, stream)
		} else {
			blank = 1
		}
	}
	p.pace(blank, 0)
}

// lastLines returns the last lines of the output.
func (p *logPump) lastLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := slices.Clone(p.tail[max(0, len(p.tail)-tailLines):])
	for i := range last {
		_, last[i], _ = parseLine([]byte(p.secrets.Redact(last[i])))
	}
	return last
}

func (p *logPump) line(line []byte, stream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(line)
	p.count(1, 0)
	if p.bytes += len(line); p.inWindow > linesPerSec || p.bytes > bytesPerSec {
		p.suppressed++
		return
	}
	if p.secrets.Len() > 0 {
		line = []byte(p.secrets.Redact(string(line)))
	}
	level, message, fields := parseLine(line)
	if p.inError = fields == nil && (p.inError || startsTrace(message)); p.inError {
		level = zerolog.ErrorLevel
	}
	if len(line) > maxLogged {
		message, fields = cut(message, maxLogged)+" [cut]", nil
	}
	e := p.log.WithLevel(level).Str("stream", stream)
	for k, v := range fields {
		e = e.Interface(k, v)
	}
	e.Msg(message)
}

// skip counts lines omitted from the log.
func (p *logPump) skip(lines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suppressed += lines
}

func (p *logPump) reportSuppressed() {
	if p.suppressed > 0 {
		p.log.Warn().Int("lines", p.suppressed).Msg("the plugin prints too much; lines omitted from the log")
		p.suppressed = 0
	}
}

// keep adds a line to the tail as printed; it is parsed on request.
func (p *logPump) keep(line []byte) {
	kept := string(line[:min(len(line), maxLineBytes)])
	if len(line) > maxKept && line[0] != '{' {
		kept = string(line[:maxKept]) + "..."
	}
	p.tail = append(p.tail, kept)
	p.tailSize += len(kept)
	for p.tailSize > tailBytes || len(p.tail) > 4*tailLines {
		p.tailSize -= len(p.tail[0])
		p.tail = p.tail[1:]
	}
}

func startsTrace(line string) bool {
	return slices.ContainsFunc([]string{
		"panic: ", "fatal error: ", "Traceback (most recent call last)", "goroutine ", "SIGSEGV", "runtime: ",
	}, func(s string) bool { return strings.HasPrefix(line, s) })
}

// parseLine parses a line of JSON in the form written by zerolog, hclog or Python's loggers, or plain text. For plain
// text, the returned map is nil.
func parseLine(line []byte) (zerolog.Level, string, map[string]any) {
	if line[0] != '{' {
		return textLevel(line), string(line), nil
	}
	var m map[string]any
	if json.Unmarshal(line, &m) != nil || m == nil {
		return zerolog.DebugLevel, string(line), nil
	}
	level, message, fields := zerolog.DebugLevel, "", map[string]any{}
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
			fields["plugin_"+k] = v // these names are the host's own fields
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

// textLevel returns the bracketed level at the start of a line, or debug.
func textLevel(line []byte) zerolog.Level {
	if name, _, found := bytes.Cut(line, []byte("]")); found && line[0] == '[' && len(name) <= len("[critical") {
		return namedLevel(string(name[1:]))
	}
	return zerolog.DebugLevel
}

// namedLevel returns the log level with the given name, lowered to error if a message of that level would end the host.
// An unknown name means debug.
func namedLevel(s string) zerolog.Level {
	switch s = strings.ToLower(s); s {
	case "warning":
		return zerolog.WarnLevel
	case "critical":
		return zerolog.ErrorLevel
	}
	level, err := zerolog.ParseLevel(s)
	if err != nil || level < zerolog.TraceLevel || level > zerolog.PanicLevel {
		return zerolog.DebugLevel
	}
	return min(level, zerolog.ErrorLevel)
}

// syncWriter receives the output that go-plugin forwards from the plugin's os.Stdout and os.Stderr.
type syncWriter struct {
	pump   *logPump
	stream string
	buf    []byte
}

// Write receives a message. If it exceeds the log's limit per second, only its beginning and end are examined.
func (w *syncWriter) Write(b []byte) (int, error) {
	n := len(b)
	if n > bytesPerSec+tailBytes {
		w.split(b[:bytesPerSec])
		w.buf = w.buf[:0] // an incomplete line may contain part of a secret, which would not be recognised
		last := b[n-tailBytes:]
		last = last[1+bytes.IndexByte(last, '\n'):]
		w.pump.skip(bytes.Count(b[bytesPerSec:n-len(last)], []byte("\n")))
		b = last
	}
	w.split(b)
	w.pump.pace(0, n)
	return n, nil
}

// split passes on complete lines, and keeps the last one if it is incomplete.
func (w *syncWriter) split(b []byte) {
	w.buf = append(w.buf, b...)
	var rest []byte
	for line := range bytes.Lines(w.buf) {
		text, complete := bytes.CutSuffix(line, []byte("\n"))
		if !complete && len(text) <= maxLineBytes {
			rest = text
		} else if len(text) > 0 {
			w.pump.line(text, w.stream)
		}
	}
	w.buf = append(w.buf[:0], rest...)
}

// hostLogger sends go-plugin's own messages to zerolog at debug level, because the host reports the same events.
func hostLogger(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	if log.GetLevel() <= zerolog.DebugLevel {
		l.RegisterSink(&hostSink{log})
	}
	return l
}

type hostSink struct{ log zerolog.Logger }

// Accept is called by hclog, possibly concurrently.
func (s *hostSink) Accept(name string, _ hclog.Level, msg string, args ...any) {
	e := s.log.Debug().Str("from", "go-plugin")
	for i := 0; i+1 < len(args); i += 2 {
		k, ok := args[i].(string)
		if !ok || k == "plugin" {
			continue
		}
		if err, ok := args[i+1].(error); ok { // most errors would be {} in JSON
			e = e.AnErr(k, err)
		} else {
			e = e.Interface(k, args[i+1])
		}
	}
	e.Msg(strings.TrimSpace(name + " " + msg))
}
