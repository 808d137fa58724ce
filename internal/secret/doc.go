// Package secret keeps secrets out of everything that is shown or written, such as logs, errors, a run's files and the
// terminal.
//
// A secret whose value is known is a [Text], which always prints as "[secret]", and one of the [Values] that are
// removed from any text that may repeat it, such as a server's answer or a program's output. If the value isn't
// known, [Shape] recognises secrets by their form: `--token VALUE`, `HF_TOKEN=...`, `Authorization: Bearer ...`, the
// tokens of well-known services, the password in an address.
package secret
