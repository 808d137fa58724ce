// Package turns finds the assistant's turns in a rendered conversation: the text that the model wrote, or would have
// written, whether it comes from fields or from the template.
//
// A turn's span extends from the end of the generation prompt to the end of its terminator. Three things locate it. The
// dialect of the template - generation prompt, terminators, empty think block - is learned once by rendering tiny
// conversations (dialect.go). The origin of every byte says where each message's text ended up, so text that merely
// looks like a header or terminator can't mislead us (find.go). And renders of the conversation's prefixes show whether
// the turn appears as the model saw and wrote it (stable.go); where they can be compared, all three have to agree.
//
// Text that the template inserts into a turn, and that is not part of a call's syntax, is filler: an empty think block,
// which the model was not asked to write. It is in the span but never trained on.
//
// Probe determines, in the same way, how a template treats conversations: which messages it accepts and where it puts
// them, which text it trims, drops, hoists, rewrites or adds, and how it ends a turn. Its findings show how a hint can
// be placed in the context, whether a trajectory can be one row, and which conversations are refused.
package turns
