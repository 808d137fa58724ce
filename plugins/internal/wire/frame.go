package wire

// frame collects the parts of one group after another until they are sent.
type frame[P any] struct {
	emit  func([]*P) error
	parts []*P
	bytes int // estimate of the frame's size
	texts textWriter
	code  converter // writes to texts
}

// begin prepares the frame. split ends it in the middle of a group.
func (f *frame[P]) begin(split func() error) {
	f.texts = newTextWriter(&f.bytes, split)
	f.code.to = &f.texts
}

// add adds an empty part.
func (f *frame[P]) add(part *P) *P {
	f.parts = append(f.parts, part)
	f.bytes += 24
	return part
}

// flush sends the frame unless it is empty.
func (f *frame[P]) flush() error {
	if f.texts.err != nil || len(f.parts) == 0 {
		return f.texts.err
	}
	err := f.emit(f.parts)
	clear(f.parts)
	f.parts, f.bytes = f.parts[:0], 0
	f.texts.free()
	return err
}
