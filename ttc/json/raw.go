package json

// Raw is one complete, syntax-checked JSON value without surrounding space.
type Raw []byte
