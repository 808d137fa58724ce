package json

// AppendCompact appends a value on one line, without white space between tokens.
func AppendCompact(dst []byte, r Raw) []byte {
	for i := 0; i < len(r); {
		switch c := r[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := endOfString(r, i)
			dst = append(dst, r[i:end]...)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}
