// Package secret keeps secrets out of everything that is shown or written: logs, errors, files of a run, the terminal.
//
// A secret whose value is known is a [Text], which prints as "[secret]" however it is printed, and one of the [Values]
// that are removed from texts which may repeat it: a server's answer, a program's output. If the value isn't known,
// [Shape] recognises what secrets look like: `--token VALUE`, `HF_TOKEN=...`, `Authorization: Bearer ...`, the tokens
// of well-known services, the password in an address.
package secret
