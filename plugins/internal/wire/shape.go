package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A message may take a hundred times as much memory as on the wire, where an empty part takes two bytes instead of
// two hundred. The memory a plugin's message would take is therefore computed before it is decoded.
const (
	maxDecoded   = 64 << 20 // max memory of one message, in bytes
	messageBytes = 224      // memory of a nested message, without its content
	numberBytes  = 8        // memory of a packed number
)

// checkShape rejects a message that would take too much memory. It does not examine messages that are too small for
// that, such as all frames from a plugin that respects the frame size.
func checkShape(d protoreflect.MessageDescriptor, data []byte) error {
	if len(data) <= maxDecoded/(messageBytes/2+1) {
		return nil
	}
	if n := decodedBytes(d, data); n > maxDecoded {
		return fmt.Errorf("message of %d KiB would take more than %d MiB of memory",
			len(data)>>10, maxDecoded>>20)
	}
	return nil
}

// decodedBytes returns the approximate memory that a message takes, up to the limit. It leaves malformed messages to
// the decoder.
func decodedBytes(d protoreflect.MessageDescriptor, data []byte) (n int) {
	n = messageBytes
	for len(data) > 0 && n <= maxDecoded {
		num, typ, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return n
		}
		data = data[tag:]
		if typ != protowire.BytesType {
			size := protowire.ConsumeFieldValue(num, typ, data)
			if size < 0 {
				return n
			}
			data = data[size:]
			n += numberBytes
			continue
		}
		v, size := protowire.ConsumeBytes(data)
		if size < 0 {
			return n
		}
		data = data[size:]
		switch f := d.Fields().ByNumber(num); {
		case f == nil:
			n += 2 * len(v)
		case f.Kind() == protoreflect.MessageKind:
			n += decodedBytes(f.Message(), v)
		case f.IsPacked() && f.Kind() != protoreflect.Fixed32Kind && f.Kind() != protoreflect.Sfixed32Kind &&
			f.Kind() != protoreflect.FloatKind:
			n += numberBytes * len(v)
		default:
			n += len(v) + numberBytes
		}
	}
	return n
}
