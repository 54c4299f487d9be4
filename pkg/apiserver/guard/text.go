// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// checkText refuses JSON or YAML with a quantity that is too expensive to read. What is neither is the decoder's to refuse.
func checkText(body []byte) error { return check(body, isQuantity) }

// Embedded refuses JSON, from inside a string of an object, with any string or number that would be too expensive to read as
// a quantity: what decodes it is not as strict about the names of fields.
func Embedded(text string) error {
	return check([]byte(text), func(string, string) bool { return true })
}

func check(body []byte, is func(parent, field string) bool) error {
	if !suspect(body) && !disguises(body) {
		return nil
	}
	found, err := walk(body, is)
	if err != nil {
		if body, err = yaml.YAMLToJSON(body); err == nil {
			found, err = walk(body, is)
		}
	}
	if err != nil || found == "" {
		return nil //nolint:nilerr // the decoder tells
	}
	return refuseQuantity(found)
}

// disguises tells whether letters and digits may be written otherwise than as they are: by an escape (\u0065 in JSON and YAML,
// \x65 or a line that goes on in YAML), or by a tag in YAML (!!binary, under whatever name).
func disguises(body []byte) bool {
	for i, c := range body {
		if c == '\\' && i+1 < len(body) && bytes.IndexByte([]byte("uUx\r\n"), body[i+1]) >= 0 {
			return true
		}
	}
	return bytes.IndexByte(body, '!') >= 0 && !json.Valid(body)
}

// level is an object or a list that is being read.
type level struct {
	list bool
	// name is the field that an object is in, and field the one of its own that is being read. A list has those of the object
	// that it is in.
	name, field string
	// inField tells that the value of field is next, not another name.
	inField bool
}

// walk returns an expensive quantity of a JSON document, or "": one in a field that is one. It sees a field as often as it is given, as decoders into Go
// types do, and needs no more stack for a deeper document.
func walk(body []byte, is func(parent, field string) bool) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	stack := []level{{list: true}}
	found := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && len(stack) == 1 {
			return found, nil
		}
		if err != nil {
			return "", err
		}
		top := &stack[len(stack)-1]
		text := ""
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{', '[':
				stack = append(stack, top.below(token == '['))
			default:
				stack = stack[:len(stack)-1]
				stack[len(stack)-1].inField = false
			}
			continue
		case string:
			if !top.list && !top.inField {
				top.field, top.inField = token, true
				if size := hugePage(token); found == "" && quantity.Expensive(size) && is(top.name, token) {
					found = size
				}
				continue
			}
			text = token
		case json.Number:
			text = token.String()
		}
		top.inField = false
		if found == "" && quantity.Expensive(text) && is(top.name, top.field) {
			found = text
		}
	}
}

// below is the level of a value that begins here. The items of a list are where the list itself is.
func (l *level) below(list bool) level {
	if list {
		return level{list: true, name: l.name, field: l.field}
	}
	return level{name: l.field}
}
