// Package turns finds the assistant's turns in a rendered conversation: the text that the model wrote, or would have
// written, whatever of it comes from fields or from the template.
//
// A turn's span goes from the end of the generation prompt to the end of its terminator. It is found from three things.
// The dialect of the template - generation prompt, terminators, empty think block - is learned once by rendering tiny
// conversations (dialect.go). The origin of every byte says where each message's text came to lie, so that text which
// only looks like a header or a terminator fools nobody (find.go). And renders of the conversation's beginnings say
// whether the turn stands there as the model saw and wrote it (stable.go); where they can be compared they have to
// agree.
//
// Text that the template puts into a turn without a source, and that is no part of a call's form, is filler: an empty
// think block, which the model was not asked for. It is in the span and never trained.
//
// Not part of the promised API.
package turns
