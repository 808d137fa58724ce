package compose

import "github.com/nat-go/nat-go/ttc/json"

// Object is a JSON object under construction. A nil Object has no members.
type Object []byte

// Member adds a member whose key is given as JSON.
func (o Object) Member(key, value json.Raw) Object {
	if o == nil {
		o = Object{'{'}
	}
	return append(append(append(json.AppendComma(o), key...), ':'), value...)
}

// Set adds a member, unless its value is missing or null.
func (o Object) Set(key string, value json.Raw) Object {
	if value.Kind() == json.Invalid || value.Kind() == json.Null {
		return o
	}
	return append(o.key(key), value...)
}

// key begins a member.
func (o Object) key(name string) Object {
	if o == nil {
		o = Object{'{'}
	}
	return append(json.AppendString(json.AppendComma(o), name), ':')
}

// Text adds a string member.
func (o Object) Text(key, value string) Object { return json.AppendString(o.key(key), value) }

// Name adds a string member, unless it is empty.
func (o Object) Name(key, value string) Object {
	if value == "" {
		return o
	}
	return o.Text(key, value)
}

// End returns the completed object.
func (o Object) End() json.Raw {
	if o == nil {
		return json.Raw("{}")
	}
	return json.Raw(append(o, '}'))
}

// List is a JSON list under construction. A nil List has no elements.
type List []byte

// Add adds an element.
func (l List) Add(element json.Raw) List {
	if l == nil {
		l = List{'['}
	}
	return append(json.AppendComma(l), element...)
}

// AddMessage adds a message with text content.
func (l List) AddMessage(role, text string) List {
	return l.Add(Object(nil).Text("role", role).Text("content", text).End())
}

// End returns the completed list. It doesn't change l, so more elements can be added.
func (l List) End() json.Raw {
	if l == nil {
		return json.Raw("[]")
	}
	return json.Raw(append(l[:len(l):len(l)], ']'))
}
