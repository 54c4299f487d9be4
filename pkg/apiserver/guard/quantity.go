// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// bombs returns where, from and to, numbers are whose exponent has so many digits that no quantity can mean them: the library
// would write them out, which takes minutes and gigabytes. Nothing else about them is strange, and a label may well be such a
// string. What is given is the last digit before the exponent and on. Every byte of every write goes through here.
func bombs(body []byte) iter.Seq2[int, int] {
	const digits = 5
	return func(yield func(from, to int) bool) {
		for i := 1; i < len(body); i++ {
			if body[i]|0x20 != 'e' || !isDigit(body[i-1]) && body[i-1] != '.' {
				continue
			}
			first := i + 1
			if first < len(body) && (body[first] == '+' || body[first] == '-') {
				first++
			}
			to := first
			for to < len(body) && isDigit(body[to]) {
				to++
			}
			if to-first < digits {
				i = to - 1
				continue
			}
			if !yield(i-1, to) {
				return
			}
			i = to
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// bombString is a string that is one.
var bombString = regexp.MustCompile(`^[+-]?[0-9.]*[0-9.][eE][+-]?[0-9]{5,}$`)

// maxBody is as much of a body as the machinery reads.
const maxBody = 3 << 20

// maxAhead is how much is set aside for a body before it has come.
const maxAhead = 64 << 10

// checked is a body that is looked at before its first byte is handed on.
type checked struct {
	io.ReadCloser
	mediaType string
	length    int64 // as the client tells it, within bounds
	once      sync.Once
	rest      io.Reader
	err       error
}

// streams are the subresources whose requests are no objects.
var streams = []string{"attach", "exec", "portforward"}

// checkQuantities lets the handler see an error in place of an object with quantities that are too expensive to read.
func checkQuantities(r *http.Request, info *apirequest.RequestInfo) {
	writes := slices.Contains([]string{"create", "update", "patch"}, info.Verb) && !slices.Contains(streams, info.Subresource)
	if !writes || r.Body == nil || r.Body == http.NoBody {
		return
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		mediaType = runtime.ContentTypeJSON // what the machinery takes it for, or refuses
	}
	r.Body = &checked{ReadCloser: r.Body, mediaType: mediaType, length: min(max(r.ContentLength, 0), maxAhead)}
}

// Read implements io.Reader. Its error is an answer to the client.
func (c *checked) Read(p []byte) (int, error) {
	c.once.Do(func() {
		body := bytes.NewBuffer(make([]byte, 0, c.length+bytes.MinRead))
		_, c.err = body.ReadFrom(io.LimitReader(c.ReadCloser, maxBody+1))
		if c.err == nil {
			if found := expensive(c.mediaType, body.Bytes()); found != "" {
				c.err = apierrors.NewBadRequest(fmt.Sprintf("the quantity %.100q has an exponent out of range", found))
			}
		}
		c.rest = io.MultiReader(body, c.ReadCloser)
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.rest.Read(p)
}

// expensive returns a quantity of the body that is too expensive to read, or "".
func expensive(mediaType string, body []byte) string {
	suspect := false
	for range bombs(body) {
		suspect = true
		break
	}
	if !suspect {
		return ""
	}
	if mediaType == runtime.ContentTypeProtobuf {
		return inProtobuf(body)
	}
	if strings.Contains(mediaType, "yaml") {
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return "" // the decoder tells
		}
		body = converted
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return ""
	}
	return inJSON("", "", v)
}

// inProtobuf looks for a message with nothing but such a string in its first field: that is how a quantity is encoded.
func inProtobuf(body []byte) string {
	for from, to := range bombs(body) {
		for from > 0 && bytes.IndexByte([]byte("0123456789.+-"), body[from-1]) >= 0 && body[from-1] != byte(to-from) {
			from--
		}
		if n := to - from; from >= 3 && body[from-1] == byte(n) && body[from-2] == 0x0a && body[from-3] == byte(n+2) {
			return string(body[from:to])
		}
	}
	return ""
}

// inJSON looks at a value that is in a field of an object that is in a field parent.
func inJSON(parent, field string, v any) string {
	found := ""
	look := func(parent, field string, v any) {
		if found == "" {
			found = inJSON(parent, field, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		if path, ok := v["path"].(string); ok { // of a JSON patch
			steps := strings.Split("/"+path, "/")
			look(steps[len(steps)-2], steps[len(steps)-1], v["value"])
		}
		for k, item := range v {
			look(field, k, item)
		}
	case []any:
		for _, item := range v {
			look(parent, field, item)
		}
	case string:
		if bombString.MatchString(strings.TrimSpace(v)) && isQuantity(parent, field) {
			return v
		}
	case json.Number:
		if bombString.MatchString(v.String()) && isQuantity(parent, field) {
			return v.String()
		}
	}
	return found
}

// isQuantity tells whether some kind has a quantity in a field of this name, or a list of quantities in the parent.
func isQuantity(parent, field string) bool {
	names := quantityFields()
	if field == "value" { // that of an environment variable is none, that of a metric is
		return names.lists.Has(parent) || slices.Contains([]string{"target", "current", "metrics"}, parent)
	}
	return names.single.Has(field) || names.lists.Has(parent)
}

// fieldNames are the names of fields that hold a quantity, or quantities by name.
type fieldNames struct{ single, lists sets.Set[string] }

// quantityFields are those of all built-in kinds.
var quantityFields = sync.OnceValue(func() fieldNames {
	names := fieldNames{single: sets.New[string](), lists: sets.New[string]()}
	quantity, seen := reflect.TypeFor[resource.Quantity](), map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == quantity || seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			of := f.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			switch {
			case of == quantity:
				names.single.Insert(name)
			case of.Kind() == reflect.Map && of.Elem() == quantity:
				names.lists.Insert(name)
			default:
				visit(of)
			}
		}
	}
	for _, t := range clientgoscheme.Scheme.AllKnownTypes() {
		visit(t)
	}
	return names
})
