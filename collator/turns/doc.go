// Package turns finds the assistant's turns in a rendered conversation: the text that the model wrote, or would have
// written, whether it comes from fields or from the template.
//
// A turn's span extends from the end of the generation prompt to the end of its terminator. It is located by three
// means. The dialect of the template - generation prompt, terminators, empty think block - is learned once by
// rendering tiny conversations (dialect.go). The origin of every byte shows the position of each message's text, so
// text that merely looks like a header or terminator isn't mistaken for one (find.go). Renders of the conversation's
// prefixes show whether the turn is rendered as it was sampled (stable.go). Where the three can be compared, they
// must agree.
//
// Text that the template inserts into a turn, and that is not part of a call's syntax, is filler: an empty think
// block, which the model was not asked to write. It belongs to the span but is never trained on.
//
// Probe determines, in the same way, how a template treats conversations: which messages it accepts and where it puts
// them, which text it trims, drops, hoists, rewrites or adds, and how it ends a turn. Its findings show how a hint can
// be placed in the context, whether a trajectory can be one row, and which conversations are rejected.
package turns
