package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A message may be a hundred times as large in memory as on the wire: an empty part takes two bytes on the wire and two
// hundred in memory. The memory a plugin's message would take is therefore computed before it is decoded.
const (
	maxDecoded   = 64 << 20 // max memory of one message, in bytes
	messageBytes = 224      // memory of a nested message, without its content
	numberBytes  = 8        // per packed number
)

// checkShape refuses a message that would take too much memory. Messages too small to do so are not examined, which
// covers every frame from a plugin that respects the frame size.
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

// decodedBytes returns approximately how much memory a message takes. It stops at the limit; malformed messages are
// left to the decoder.
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
