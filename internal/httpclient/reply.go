package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/internal/lazy"
)

// Reply is a service's response to a request.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte

	x    *exchange
	cut  bool // Body is only the beginning of a long refusal
	held bool // the reply occupies a slot for a large response
}

// maxRefusal is the maximum number of bytes of a refusal that are read.
const maxRefusal = 64 << 10

// Close releases the response; see Options.Large. It may be called more than once.
func (r *Reply) Close() {
	if r.held {
		r.held = false
		<-r.x.c.large
	}
}

// DoJSON sends a request with Do and decodes the response with Reply.JSON.
func (c *Client) DoJSON(ctx context.Context, req Request, v any) error {
	reply, err := c.Do(ctx, req)
	if err != nil {
		return err
	}
	return reply.JSON(v)
}

// JSON decodes the response. The error for a response that is not JSON is Unsettled.
func (r *Reply) JSON(v any) error {
	dec := json.NewDecoder(bytes.NewReader(r.Body))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return r.x.broken(fmt.Sprintf("HTTP %d with %s", r.Status, r.shape(err)), err)
	}
	return nil
}

// shape describes the body of a response that could not be decoded.
func (r *Reply) shape(err error) string {
	switch body := bytes.TrimSpace(r.Body); {
	case len(body) == 0:
		return "an empty answer instead of JSON"
	case body[0] == '<':
		return "an HTML page instead of JSON" + r.title() + "; is this the address of the service, or of a proxy in front of it?"
	case body[0] == '{' || body[0] == '[':
		return "broken or unexpected JSON (" + r.x.c.Scrub(err.Error()) + "): " + r.Excerpt()
	default:
		return "an answer that is not JSON: " + r.Excerpt()
	}
}

// refusal returns the error for a response with an unexpected status.
func (r *Reply) refusal() error {
	why := fmt.Sprintf("HTTP %d %s: %s", r.Status, http.StatusText(r.Status), r.detail())
	e := &Error{Op: r.x.op, Why: strings.TrimSuffix(why, ": "), Status: r.Status}
	e.RetryAfter = retryAfter(r.Header.Get("Retry-After"), time.Now())
	switch s := r.Status; {
	case s == http.StatusUnauthorized:
		e.Fault, e.Fix = Denied, "the token is missing or wrong"
	case s == http.StatusForbidden:
		e.Fault, e.Fix = Denied, "the token does not grant permission to do this"
	case s == http.StatusProxyAuthRequired:
		e.Fault, e.Fix = Denied, "the proxy requires credentials"
	case s == http.StatusNotFound || s == http.StatusGone:
		e.Fault = Gone
	case s == http.StatusRequestTimeout || s == http.StatusTooEarly || s == http.StatusTooManyRequests:
		e.Fault = Unavailable
	case s == http.StatusRequestEntityTooLarge:
		e.Fault, e.Fix = Refused, "the service or a proxy in front of it limits the size of requests"
	case s >= 500:
		e.Fault, e.Unsettled = Unavailable, true
	default:
		e.Fault = Refused
	}
	return e
}

// detail returns the response's own description of the error: FastAPI's detail, or the error or message of other JSON.
// If there is none, it returns the title of an HTML page, or the first bytes.
func (r *Reply) detail() string {
	var v map[string]any
	if json.Unmarshal(r.Body, &v) == nil {
		for _, k := range []string{"detail", "message", "error"} {
			switch d := v[k].(type) {
			case string:
				return r.shorten(d)
			case []any:
				return r.shorten(validation(d))
			case map[string]any:
				if m, ok := d["message"].(string); ok {
					return r.shorten(m)
				}
			}
		}
	}
	if body := bytes.TrimSpace(r.Body); len(body) > 0 && body[0] == '<' {
		return "an HTML page" + r.title()
	}
	return r.Excerpt()
}

// validation prints FastAPI's list of problems with a body: "hyperparameters.epochs: must be at least 1".
func validation(list []any) string {
	var out []string
	for _, x := range list {
		m, _ := x.(map[string]any)
		if m == nil {
			continue
		}
		var loc []string
		parts, _ := m["loc"].([]any)
		for _, p := range parts {
			if s := fmt.Sprint(p); s != "body" {
				loc = append(loc, s)
			}
		}
		msg, _ := m["msg"].(string)
		if len(loc) > 0 {
			msg = strings.Join(loc, ".") + ": " + msg
		}
		out = append(out, msg)
	}
	return strings.Join(out, "; ")
}

// titleTag matches the title of an HTML page. It is compiled on first use, because compiling its counted repetition
// is slow.
var titleTag = lazy.Regexp(`(?is)<title[^>]*>(.{0,200}?)</title>`)

func (r *Reply) title() string {
	if m := titleTag().FindSubmatch(r.Body); m != nil {
		return " titled \"" + r.shorten(string(m[1])) + "\""
	}
	return ""
}

// Excerpt returns the beginning of the response for display on one line.
func (r *Reply) Excerpt() string { return r.shorten(string(r.Body[:min(len(r.Body), 2000)])) }

// shorten shortens text from the service to fit on one line of an error.
func (r *Reply) shorten(s string) string {
	s = r.x.c.secrets.RedactCut(s, false, r.cut || len(s) < len(r.Body))
	s = r.x.c.Scrub(strings.Join(strings.Fields(s), " "))
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(v string, now time.Time) time.Duration {
	if secs, err := strconv.ParseFloat(v, 64); err == nil {
		if !(secs > 0) {
			return 0
		}
		return time.Duration(min(secs, math.MaxInt32) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
