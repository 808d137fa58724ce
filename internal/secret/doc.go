// Package secret keeps secrets out of everything that is shown or written: logs, errors, files of a run, the terminal.
//
// A secret whose value is known is a [Text], which prints as "[secret]" whatever prints it, and one of the [Values]
// that are taken out of texts which may repeat it: an answer of a server, the output of a program. Where the value
// isn't known, [Shape] goes by what secrets look like: `--token VALUE`, `HF_TOKEN=...`, `Authorization: Bearer ...`,
// the tokens of well-known services, the password of an address.
package secret
