// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// hugePage is the part of the name of a resource that is a quantity too (hugepages-2Mi), or "".
func hugePage(name string) string {
	if size, ok := strings.CutPrefix(name, corev1.ResourceHugePagesPrefix); ok {
		return size
	}
	return ""
}

// refuseQuantity is the answer to one that is too expensive to read.
func refuseQuantity(s string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the quantity %.100q has an exponent or a number of digits out of range", strings.TrimSpace(s)))
}

// suspect tells whether there may be a string that is expensive among these bytes, as they are. Every byte of every write goes
// through here.
func suspect(body []byte) bool {
	digits := 0
	for i, c := range body {
		if isDigit(c) || c == '.' {
			if digits++; digits >= quantity.MaxDigits {
				return true
			}
			continue
		}
		if c|0x20 == 'e' && digits > 0 && exponentDigits(body[i+1:]) >= quantity.ExpensiveExponent {
			return true
		}
		digits = 0
	}
	return false
}

// exponentDigits is how many digits follow, after a sign.
func exponentDigits(rest []byte) int {
	n := 0
	for i, c := range rest {
		if i == 0 && (c == '+' || c == '-') {
			continue
		}
		if !isDigit(c) || n == quantity.ExpensiveExponent {
			break
		}
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// maxBody is as much of a body as the machinery reads.
const maxBody = 3 << 20

// maxAhead is how much is set aside for a body before it has come.
const maxAhead = 64 << 10

// checked is a body that is looked at before its first byte is handed on.
type checked struct {
	io.ReadCloser
	length int64 // as the client tells it, within bounds
	once   sync.Once
	rest   io.Reader
	err    error
}

// converted are the patches that become an object without a decoder: strategic merge patches and applied objects. In them
// each value has the place that it is meant for; what others copy or move is seen by the decoder afterwards (Decoders).
var converted = []string{string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType), string(types.ApplyCBORPatchType)}

// checkPatch lets the handler see an error in place of a patch with quantities that are too expensive to read.
func checkPatch(r *http.Request, info *apirequest.RequestInfo) {
	if info.Verb != "patch" || r.Body == nil || r.Body == http.NoBody {
		return
	}
	// As the machinery reads the header: up to the first semicolon.
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if slices.Contains(converted, strings.TrimSpace(mediaType)) {
		r.Body = &checked{ReadCloser: r.Body, length: min(max(r.ContentLength, 0), maxAhead)}
	}
}

// Read implements io.Reader. Its error is an answer to the client.
func (c *checked) Read(p []byte) (int, error) {
	c.once.Do(func() {
		body := bytes.NewBuffer(make([]byte, 0, c.length+bytes.MinRead))
		_, c.err = body.ReadFrom(io.LimitReader(c.ReadCloser, maxBody+1))
		if c.err == nil {
			c.err = checkText(body.Bytes())
		}
		c.rest = io.MultiReader(body, c.ReadCloser)
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.rest.Read(p)
}

// isQuantity tells whether some kind has a quantity in a field of this name, or quantities by name in its parent.
func isQuantity(p place) bool {
	names := quantityFields()
	if p.field == "value" { // that of an environment variable is none, that of a metric is
		return names.lists.Has(p.parent) || names.maps.Has(p.outer) || slices.Contains(valueParents, p.parent)
	}
	return names.single.Has(p.field) || names.lists.Has(p.parent)
}

// valueParents are the fields whose objects have a quantity in their field "value".
var valueParents = []string{"target", "current", "metrics", "metric"}

// fieldNames are the names of fields that hold a quantity, quantities by name, or objects with quantities by name.
type fieldNames struct{ single, lists, maps sets.Set[string] }

// quantityFields are those of all built-in kinds.
var quantityFields = sync.OnceValue(func() fieldNames {
	names := fieldNames{single: sets.New[string](), lists: sets.New[string](), maps: sets.New[string]()}
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		t = element(t)
		if t.Kind() == reflect.Map {
			t = element(t.Elem())
		}
		if t.Kind() != reflect.Struct || t == quantityType || seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch of := element(f.Type); {
			case of == quantityType:
				names.single.Insert(name)
			case of.Kind() == reflect.Map && element(of.Elem()) == quantityType:
				names.lists.Insert(name)
			default:
				if of.Kind() == reflect.Map && hasQuantity(element(of.Elem())) {
					names.maps.Insert(name)
				}
				visit(of)
			}
		}
	}
	for _, t := range clientgoscheme.Scheme.AllKnownTypes() {
		visit(t)
	}
	return names
})

// hasQuantity tells whether a field of a type is a quantity.
func hasQuantity(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if element(f.Type) == quantityType {
			return true
		}
	}
	return false
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// element is the type behind pointers and slices.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
