// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// checkText refuses JSON or YAML with a quantity that is too expensive to read. What is neither is the decoder's to refuse.
func checkText(body []byte) error { return check(body, isQuantity) }

// Embedded refuses JSON, from inside a string of an object, with any string or number that would be too expensive to read as
// a quantity: what decodes it is not as strict about the names of fields.
func Embedded(text string) error {
	return check([]byte(text), func(place) bool { return true })
}

func check(body []byte, is func(place) bool) error {
	if !dubious(body) {
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

// dubious tells whether a body has to be read to know.
func dubious(body []byte) bool { return suspect(body) || disguises(body) }

// disguises tells whether letters and digits may be written otherwise than as they are: by an escape (\u0065 in JSON and YAML,
// \x65 or a line that goes on in YAML, which knows line breaks beyond ASCII), in UTF-16, which YAML may be in, or by a tag in
// YAML (!!binary, under whatever name).
func disguises(body []byte) bool {
	if bytes.HasPrefix(body, []byte("\xfe\xff")) || bytes.HasPrefix(body, []byte("\xff\xfe")) {
		return true
	}
	for i, c := range body {
		if c != '\\' || i+1 == len(body) {
			continue
		}
		if next := body[i+1]; next >= utf8.RuneSelf || strings.IndexByte("uUx\r\n", next) >= 0 {
			return true
		}
	}
	return bytes.IndexByte(body, '!') >= 0 && !json.Valid(body)
}

// place is where a value is: in a field of the object in the field parent, which is in an object in the field outer.
type place struct{ outer, parent, field string }

// level is an object or a list that is being read.
type level struct {
	list bool
	// at is the field of the object that is being read. A list has that of the object that it is in.
	at place
	// inField tells that the value of field is next, not another name.
	inField bool
}

// maxDepth is how deep a document may be for the decoders (encoding/json's limit).
const maxDepth = 10000

var errDeep = errors.New("the document is too deep")

// walk returns an expensive quantity of a JSON document, or "": one in a field that is one. It sees a field as often as it is
// given, as decoders into Go types do.
func walk(body []byte, is func(place) bool) (string, error) {
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
				if len(stack) > maxDepth {
					return "", errDeep
				}
				stack = append(stack, top.below(token == '['))
			default:
				stack = stack[:len(stack)-1]
				stack[len(stack)-1].inField = false
			}
			continue
		case string:
			if !top.list && !top.inField {
				top.at.field, top.inField = token, true
				if size := hugePage(token); found == "" && quantity.Expensive(size) && is(top.at) {
					found = size
				}
				continue
			}
			text = token
		case json.Number:
			text = token.String()
		}
		top.inField = false
		if found == "" && quantity.Expensive(text) && is(top.at) {
			found = text
		}
	}
}

// below is the level of a value that begins here. The items of a list are where the list itself is.
func (l *level) below(list bool) level {
	if list {
		return level{list: true, at: l.at}
	}
	return level{at: place{outer: l.at.parent, parent: l.at.field}}
}
