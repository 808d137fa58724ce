package online

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Default limits on the length of a request frame, and on the number of objects and lists in the frame.
const (
	defaultRequestBytes   = 64 << 20
	defaultRequestObjects = 400_000
)

// The error codes.
const (
	badSettings = "bad_settings" // the settings in the first frame are invalid; the process ends
	badRequest  = "bad_request"  // the frame is not a valid request
	tooLarge    = "too_large"    // the frame or its answer exceeds the limit
	failed      = "failed"       // the batch couldn't be made
)

// Error explains why a frame was answered without a batch.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Where   string `json:"where,omitempty"` // invalid part of the request, such as "traces" or "/collator/teacher"
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.Message
	}
	return e.Where + ": " + e.Message
}

func problem(code, where, format string, a ...any) *Error {
	return &Error{Code: code, Where: where, Message: fmt.Sprintf(format, a...)}
}

// readFrame reads a frame of at most limit bytes. A longer frame is read to its end and discarded. The error is io.EOF
// if the input ends between two frames, and an *Error if the frame is too long. Reading can't continue after any other
// error.
func readFrame(in io.Reader, limit int64) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("unexpected end of input in the length of a frame")
		}
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	// The buffer grows as bytes arrive, so that a frame that only claims to be large can't exhaust memory.
	var frame bytes.Buffer
	var to io.Writer = &frame
	if n > limit {
		to = io.Discard
	}
	if got, err := io.CopyN(to, in, n); err != nil {
		return nil, fmt.Errorf("unexpected end of input after %d of %d bytes of a frame", got, n)
	}
	if n > limit {
		return nil, problem(tooLarge, "",
			"the frame has %d bytes; the limit is %d: send fewer traces at a time", n, limit)
	}
	return frame.Bytes(), nil
}

// writeFrame writes a head and a body.
func writeFrame(out io.Writer, head any, body []byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	frame := make([]byte, 12, 12+len(text))
	binary.LittleEndian.PutUint32(frame, uint32(len(text)))
	binary.LittleEndian.PutUint64(frame[4:], uint64(len(body)))
	if _, err := out.Write(append(frame, text...)); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err = out.Write(body)
	return err
}
