package otlp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "otlp",
		Tried: "openai-v2 2.3b0 and 2.4b0, OpenInference 0.1.66, OpenLLMetry 0.45.6 and 0.62.4, " +
			"AI SDK 4.3.19, 5.0.277, 6.0.326 and 7.0.173, Pydantic AI 2.68.0 (formats 2 to 6)",
		Doc: "exports of OpenTelemetry, JSON lines or protobuf (GenAI conventions, OpenInference, OpenLLMetry, " +
			"AI SDK)",
		Extensions: []string{".jsonl", ".json", ".binpb", ".pb", ".bin", ".otlp"}, Recognize: recognize, Read: read,
	}.Factory()
}

func recognize(h *source.Head) source.Reading {
	if len(h.Entries) == 0 {
		if looksLikeProtobuf(h.Bytes) {
			return source.Reading{Fit: source.Certain}
		}
		return source.Reading{}
	}
	return session.Marked(isExport, requestKeys...)(h)
}

var requestKeys = []string{"resourceSpans", "resourceLogs"}

// isExport reports whether an object is an export request.
func isExport(entry json.Raw) bool {
	return slices.ContainsFunc(requestKeys, func(key string) bool {
		v, ok := entry.Get(key)
		return ok && v.Kind() == json.Array
	})
}

// reader stores spans and log records by trace id, and builds sessions from them.
type reader struct {
	limits   session.Limits
	tally    *source.Tally
	store    *session.Store
	path     string
	known    bool
	scope    source.Version          // the instrumentation that wrote the item being read
	wrote    map[source.Version]bool // the file's instrumentations
	others   int64                   // requests in the file with neither spans nor log records
	sessions session.Names           // the session that each trace names
	scratch  []byte
	err      error
}

// The first byte of a stored item is its kind.
const (
	spanItem = 's'
	logItem  = 'l'
	// largeItem marks an item that is too large for any session. Only this byte is stored.
	largeItem = 'x'
)

func read(ctx context.Context, files []string, limits session.Limits, tally *source.Tally) (session.Reader, error) {
	r := &reader{limits: limits, tally: tally}
	r.sessions.Limit(limits.MaxNames)
	keep := func(s *session.Store, path string) error {
		r.store, r.path, r.known, r.others = s, path, false, 0
		r.wrote = map[source.Version]bool{}
		return r.file(ctx)
	}
	return session.ReadStored(ctx, files, limits, tally, keep, r.sessions.NameOf, r.session)
}

// file stores the content of a file.
func (r *reader) file(ctx context.Context) error {
	f, err := source.Open(ctx, r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	head, err := in.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return source.ReadError(r.path, err, 0)
	}
	if text := bytes.TrimLeft(head, "\xEF\xBB\xBF \t\r\n"); framed(head) ||
		len(text) == 0 || text[0] != '{' && text[0] != '[' {
		err = r.protobuf(ctx, in)
	} else {
		err = session.ReadEntries(ctx, in, r.path, r.limits.MaxLine, r.tally, func(l session.Line) bool {
			r.request(l.JSON, l.Offset)
			return r.err == nil
		})
	}
	err = cmp.Or(err, r.err)
	switch {
	case err != nil:
		return err
	case !r.known:
		r.tally.Drop(ledger.Drop{Unit: "file", Reason: session.OtherFormat, Index: -1, File: r.path})
	default:
		r.tally.CountUnread("requests that hold neither spans nor log records", r.others)
	}
	return nil
}

// request stores the items of an export request: resources contain scopes, which contain spans or log records.
func (r *reader) request(raw json.Raw, offset int64) {
	c := raw.Cursor()
	c.Enter(json.Object)
	found := false
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case `"resourceSpans"`:
			found = true
			inside(&c, `"scopeSpans"`, func() { r.within(&c, `"spans"`, spanItem, offset) })
		case `"resourceLogs"`:
			found = true
			inside(&c, `"scopeLogs"`, func() { r.within(&c, `"logRecords"`, logItem, offset) })
		default:
			c.Skip()
		}
	}
	if r.known = r.known || found; !found {
		r.others++
	}
}

// inside calls the given function for each array under key in a list of objects, with the cursor c before the array.
func inside(c *json.Cursor, key string, each func()) {
	objects(c, func(k string) {
		if k == key && c.Kind() == json.Array {
			each()
		} else {
			c.Skip()
		}
	})
}

// within reads a list of scopes and stores the elements in each scope's list under key.
func (r *reader) within(c *json.Cursor, key string, kind byte, offset int64) {
	r.scope = source.Version{}
	objects(c, func(k string) {
		switch {
		case k == `"scope"`:
			scope := c.Value()
			r.scope = scopeOf(session.Text(scope, "name"), session.Text(scope, "version"))
		case k == key && c.Kind() == json.Array:
			c.Enter(json.Array)
			for c.Element() {
				at := offset + int64(c.Pos())
				r.keep(kind, c.Value(), at)
			}
			r.scope = source.Version{}
		default:
			c.Skip()
		}
	})
}

// objects calls the given function for every key of every object in a list, with the cursor c before the key's value.
func objects(c *json.Cursor, each func(key string)) {
	if !c.Enter(json.Array) {
		c.Skip()
		return
	}
	for c.Element() {
		if !c.Enter(json.Object) {
			c.Skip()
			continue
		}
		for k, ok := c.Member(); ok; k, ok = c.Member() {
			each(string(k))
		}
	}
}

// Limits on the number of a file's instrumentations and on the length of their names.
const (
	maxScopes = 100
	longName  = 100
)

// tried lists the newest tested version of each instrumentation.
var tried = map[string]string{
	"opentelemetry.instrumentation.openai_v2": "2.4b0",
	"opentelemetry.util.genai.handler":        "1.1b0",
	"openinference.instrumentation.openai":    "0.1.66",
	"opentelemetry.instrumentation.openai.v1": "0.62.4",
	"pydantic-ai": "2.68.0",
}

// scopeOf returns the instrumentation that a scope names.
func scopeOf(name, version string) source.Version {
	short := func(text string) string { return strings.Clone(text[:min(len(text), longName)]) }
	return source.Version{Program: short(name), Number: short(version), Newest: tried[name]}
}

// keep stores a span or a log record. It ignores a log record that doesn't concern a model. For a span that
// doesn't concern a model, it stores only the fields that locate the span among the others.
func (r *reader) keep(kind byte, raw json.Raw, offset int64) {
	if r.err != nil || raw.Kind() != json.Object {
		return
	}
	relevant := isModelItem(raw)
	if kind == logItem && !relevant {
		return
	}
	trace := hexID(session.Text(raw, "traceId"), traceBytes)
	if trace == "" {
		r.tally.CountUnread("spans and log records without a trace", 1)
		return
	}
	r.scratch = append(r.scratch[:0], kind)
	if relevant {
		if !r.wrote[r.scope] && len(r.wrote) < maxScopes {
			r.wrote[r.scope] = true
			r.tally.Wrote(r.scope)
		}
		if bytes.Contains(raw, []byte("session")) || bytes.Contains(raw, []byte("conversation.id")) {
			if id := sessionOf(raw); id != "" {
				if r.sessions.Least(trace, id); r.err == nil {
					r.err = r.sessions.Err(r.path)
				}
			}
		}
		r.scratch = append(r.scratch, raw...)
	} else {
		r.scratch = appendPlace(r.scratch, raw)
	}
	if r.err == nil {
		r.err = r.store.Add(trace, r.scratch, offset)
	}
}

// sessionKeys are the attributes that name a session, in order of preference.
var sessionKeys = [...]string{
	"gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id",
	"ai.telemetry.metadata.sessionId",
}

var marks = [][]byte{
	[]byte("gen_ai."), []byte("llm."), []byte("openinference."), []byte("traceloop."), []byte("ai.operationId"),
}

// isModelItem reports whether an item uses any of the supported conventions.
func isModelItem(raw json.Raw) bool {
	return slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(raw, m) })
}

// appendPlace appends the fields that locate a span among the others.
func appendPlace(b []byte, raw json.Raw) []byte {
	b = append(b, '{')
	for _, key := range []string{"traceId", "spanId", "parentSpanId"} {
		b = append(json.AppendString(json.AppendComma(b), key), ':')
		b = json.AppendString(b, session.Text(raw, key))
	}
	return append(b, '}')
}

// sessionOf returns the id of the session that an item names.
func sessionOf(raw json.Raw) string {
	var found [len(sessionKeys)]json.Raw
	for e := range session.At(raw, "attributes").Elements() {
		if i := slices.IndexFunc(sessionKeys[:], session.At(e, "key").Is); i >= 0 {
			found[i] = appendPlain(nil, session.At(e, "value"), 0)
		}
	}
	for _, v := range found {
		if id := source.IDText(v); id != "" {
			return session.ID(id)
		}
	}
	return ""
}
