package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A message may be a hundred times as large in memory as on the wire: an empty part takes two bytes there and two
// hundred here. What a message from a plugin would take is counted before it is decoded.
const (
	maxDecoded   = 64 << 20 // bytes in memory of one message
	messageBytes = 224      // of an element that is a message, whatever is in it
	numberBytes  = 8        // of a packed number
)

// checkShape refuses a message that would take too much memory. One so small that it can't is not looked at: that is
// every frame of a plugin that keeps to their size.
func checkShape(d protoreflect.MessageDescriptor, data []byte) error {
	if len(data) <= maxDecoded/(messageBytes/2+1) {
		return nil
	}
	if n := decodedBytes(d, data); n > maxDecoded {
		return fmt.Errorf("a message of %d KiB would take more than %d MiB of memory", len(data)>>10, maxDecoded>>20)
	}
	return nil
}

// decodedBytes is about how much memory a message takes. It stops at the limit; what is malformed is for the decoder
// to say.
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
