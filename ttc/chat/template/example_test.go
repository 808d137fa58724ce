package template_test

import (
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

const chatML = `{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}`

// A template and a conversation are all that is needed; the spans say where each part of the text comes from.
func Example() {
	tmpl, err := template.Compile(chatML)
	if err != nil {
		panic(err)
	}
	messages, err := template.ParseMessages([]byte(`[{"role": "system", "content": "Be brief."},
		{"role": "user", "content": "  Hello! "}]`))
	if err != nil {
		panic(err)
	}
	result, err := tmpl.Render(template.Input{Messages: messages, AddGenerationPrompt: true})
	if err != nil {
		panic(err)
	}
	fmt.Print(result.Text, "\n")
	for span := range result.Exact() {
		text := result.Text[span.Start:span.End]
		fmt.Printf("%2d-%2d message %d, %s from byte %d: %q\n",
			span.Start, span.End, span.Message, span.Field, span.Offset, text)
	}
	// Output:
	// <|im_start|>system
	// Be brief.<|im_end|>
	// <|im_start|>user
	// Hello!<|im_end|>
	// <|im_start|>assistant
	//
	// 12-18 message 0, role from byte 0: "system"
	// 19-28 message 0, content from byte 0: "Be brief."
	// 51-55 message 1, role from byte 0: "user"
	// 56-62 message 1, content from byte 2: "Hello!"
}

// A template's additional variables, and tools, are passed along with the messages.
func ExampleTemplate_Render() {
	tmpl, err := template.Compile("{{ bos_token }}{{ tools | tojson }}{{ messages[0].content if messages else 'nothing' }}")
	if err != nil {
		panic(err)
	}
	tools, err := template.ParseTools([]byte(`[{"type": "function", "function": {"name": "weather", "parameters": {}}}]`))
	if err != nil {
		panic(err)
	}
	variables := pyvalue.NewDict(1)
	variables.SetStr("bos_token", pyvalue.Str("<s>"))
	result, err := tmpl.Render(template.Input{Tools: tools, Kwargs: variables})
	fmt.Println(result.Text, err)
	// Output:
	// <s>[{"type": "function", "function": {"name": "weather", "parameters": {}}}]nothing <nil>
}

// If a template refuses something, the error has the class that Python gives it and its position in the template.
func ExampleError() {
	tmpl, err := template.Compile("{%- if messages|length > 1 %}\n{{ raise_exception('one message only') }}{% endif %}")
	if err != nil {
		panic(err)
	}
	messages, err := template.ParseMessages([]byte(`[{"role": "user"}, {"role": "user"}]`))
	if err != nil {
		panic(err)
	}
	_, err = tmpl.Render(template.Input{Messages: messages})
	var refused *template.Error
	if errors.As(err, &refused) {
		fmt.Printf("%s at line %d: %s\n", refused.Class, refused.Line, refused.Text)
	}
	// Output:
	// TemplateError at line 2: one message only
}
