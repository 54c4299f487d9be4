// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// subresourceBodies are objects of kinds that only subresources take.
var subresourceBodies = map[string]string{
	"DeleteOptions": `{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}`,
	"Scale":         `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":2}}`,
	"Eviction":      `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"x"}}}`,
	"Binding":       `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"a"}}`,
	"TokenRequest":  `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["x"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"a","uid":"u"}}}`,
}

var deleteOptions = []string{
	`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"propagationPolicy":"Orphan","preconditions":{"uid":"x","resourceVersion":"1"},"dryRun":["All"]}`,
	`{"apiVersion":"v1","kind":"DeleteOptions","orphanDependents":true,"ignoreStoreReadErrorWithClusterBreakingPotential":true}`,
	`{"apiVersion":"apps/v1","kind":"DeleteOptions","gracePeriodSeconds":-1}`,
	`{"apiVersion":"v1","kind":"ConfigMap"}`,
}

// mutateObject changes n places of a JSON object.
func mutateObject(r *rand.Rand, object string, n int) []byte {
	var root any
	if err := json.Unmarshal([]byte(object), &root); err != nil {
		panic(err) // the seeds were marshalled by this program
	}
	for range n {
		places := root.(map[string]any)
		var at []place
		collect(places, &at)
		if len(at) == 0 {
			break
		}
		at[r.IntN(len(at))].mutate(r, at)
	}
	data := marshal(root)
	if chance(r, 20) {
		return duplicateKey(r, data)
	}
	return data
}

// place is a value in an object: that of key in m, or element i of list.
type place struct {
	m    map[string]any
	key  string
	list []any
	i    int
}

// collect lists all places below v, in an order that does not change.
func collect(v any, at *[]place) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			*at = append(*at, place{m: v, key: k})
			collect(v[k], at)
		}
	case []any:
		for i := range v {
			*at = append(*at, place{list: v, i: i})
			collect(v[i], at)
		}
	}
}

func (p place) get() any {
	if p.m != nil {
		return p.m[p.key]
	}
	return p.list[p.i]
}

func (p place) set(v any) {
	if p.m != nil {
		p.m[p.key] = v
		return
	}
	p.list[p.i] = v
}

func (p place) mutate(r *rand.Rand, others []place) {
	switch r.IntN(12) {
	case 0:
		if p.m != nil {
			delete(p.m, p.key)
			return
		}
		p.set(nil)
	case 1:
		if p.m != nil {
			p.m[pick(r, strange)] = value(r)
			return
		}
		p.set([]any{p.get(), p.get()})
	case 2: // another part of the same object; as text, so that it does not contain itself
		p.set(json.RawMessage(marshal(others[r.IntN(len(others))].get())))
	case 3:
		p.set([]any{json.RawMessage(marshal(p.get()))})
	case 4:
		if s, ok := p.get().(string); ok {
			p.set(spoil(r, s))
			return
		}
		p.set(value(r))
	case 5:
		if p.m != nil {
			p.m[strings.ToUpper(p.key)] = p.get()
			return
		}
		p.set(nil)
	default:
		p.set(value(r))
	}
}

// spoil changes a string a little.
func spoil(r *rand.Rand, s string) string {
	at := r.IntN(len(s) + 1)
	switch r.IntN(4) {
	case 0:
		return s[:at]
	case 1:
		return s[:at] + pick(r, strange) + s[at:]
	case 2:
		return s + s
	}
	return strings.ToUpper(s)
}

// marshal writes strings as they are, valid UTF-8 or not.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // values come from JSON, and from lists in this package
	}
	return bytes.TrimSpace(b.Bytes())
}

// duplicateKey writes one of the keys twice.
func duplicateKey(r *rand.Rand, data []byte) []byte {
	var at []int
	for i, c := range data {
		if c == '{' {
			at = append(at, i+1)
		}
	}
	if len(at) == 0 {
		return data
	}
	i := pick(r, at)
	key := pick(r, []string{`"kind":"Pod",`, `"metadata":{},`, `"name":"x",`, `"x":1,"x":2,`, `"spec":null,`})
	return slices.Concat(data[:i], []byte(key), data[i:])
}

// encoded spoils the encoding of an object.
func encoded(r *rand.Rand, q *Request, clean []byte) {
	set := func(tactic, contentType string, body []byte) {
		q.Tactic, q.Body = tactic, body
		q.Header.Set("Content-Type", contentType)
	}
	const isYAML, isProtobuf, isCBOR = "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"
	switch r.IntN(18) {
	case 0:
		set("truncated", isJSON, clean[:r.IntN(len(clean))])
	case 1:
		set("deep", pick(r, []string{isJSON, isYAML}), deep(r, clean))
	case 2:
		set("oversized", pick(r, []string{isJSON, isYAML, isProtobuf}), oversized(r, clean))
	case 3:
		set("alias bomb", isYAML, []byte(aliasBomb(pick(r, []int{3, 9, 20}), 9)))
	case 4:
		set("content type", pick(r, contentTypes), clean)
	case 5:
		set("bytes", isJSON, scramble(r, clean))
	case 6:
		y, err := yaml.JSONToYAML(clean)
		if err != nil {
			y = clean // JSON may have escapes that YAML has not
		}
		set("yaml", isYAML, scramble(r, y))
	case 7:
		set("yaml text", isYAML, []byte(pick(r, yamlTexts)))
	case 8:
		set("json text", isJSON, []byte(pick(r, jsonTexts)))
	case 9, 10, 11:
		set("protobuf", isProtobuf, protobufOf(r, clean))
	case 12:
		set("cbor", isCBOR, scramble(r, cborOf(clean)))
	case 13:
		set("protobuf text", isProtobuf, []byte(pick(r, protobufTexts)))
	case 14:
		set("numbers", isJSON, numbers(r, clean))
	case 15: // as what the other method takes
		set("type of a patch", pick(r, patchTypes), clean)
	case 16:
		set("cbor text", isCBOR, []byte(pick(r, cborTexts)))
	default:
		set("bytes in between", isJSON, bytes.Replace(clean, []byte(`":"`), []byte("\":\"\xff\xfe\x00"), 1+r.IntN(3)))
	}
}

// scramble changes a few bytes.
func scramble(r *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	for range 1 + r.IntN(4) {
		if len(data) == 0 {
			return data
		}
		i := r.IntN(len(data))
		switch r.IntN(4) {
		case 0:
			data[i] ^= 1 << r.IntN(8)
		case 1:
			data = slices.Delete(data, i, min(len(data), i+1+r.IntN(8)))
		case 2:
			data = slices.Insert(data, i, byte(r.IntN(256)), byte(r.IntN(256)))
		default:
			data[i] = byte(r.IntN(256))
		}
	}
	return data
}

func deep(r *rand.Rand, clean []byte) []byte {
	n := pick(r, []int{100, 9_999, 10_001, 400_000})
	nested := pick(r, []string{strings.Repeat("[", n) + strings.Repeat("]", n), strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n), strings.Repeat("[", n)})
	key := pick(r, []string{"spec", "metadata", "data", "annotations", "x"})
	return []byte(`{"` + key + `":` + nested + "," + string(clean[1:]))
}

func oversized(r *rand.Rand, clean []byte) []byte {
	n := pick(r, []int{1 << 20, 3<<20 - 100, 3<<20 + 1, 5 << 20})
	switch r.IntN(3) {
	case 0:
		return []byte(`{"x":"` + strings.Repeat("a", n) + `",` + string(clean[1:]))
	case 1:
		return bytes.Repeat([]byte(" "), n)
	}
	return []byte(`{"metadata":{"labels":{` + strings.Repeat(`"a":"b",`, n/8) + `"a":"b"}},` + string(clean[1:]))
}

// aliasBomb is a document of few lines that stands for width to the power of levels values.
func aliasBomb(levels, width int) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x]\n")
	last := "a0"
	for i := 1; i <= levels; i++ {
		name := "a" + strings.Repeat("b", i)
		b.WriteString(name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+last+",", width), ",") + "]\n")
		last = name
	}
	b.WriteString("data: *" + last + "\n")
	return b.String()
}

// numbers replaces all digits that are values.
func numbers(r *rand.Rand, clean []byte) []byte {
	number := pick(r, hugeNumbers)
	parts := strings.Split(string(clean), `":`)
	for i := 1; i < len(parts); i++ {
		if digits := len(parts[i]) - len(strings.TrimLeft(parts[i], "0123456789")); digits > 0 {
			parts[i] = number + parts[i][digits:]
		}
	}
	return []byte(strings.Join(parts, `":`))
}

var protobufSerializer = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// protobufOf is the object as spoiled protobuf; JSON remains JSON if no built-in type can hold it.
func protobufOf(r *rand.Rand, clean []byte) []byte {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(clean, nil, nil)
	if err != nil {
		return clean
	}
	data, err := runtime.Encode(protobufSerializer, o)
	if err != nil {
		return clean
	}
	if chance(r, 6) {
		return data
	}
	const magic = 4
	return slices.Concat(data[:magic], scramble(r, data[magic:]))
}

func cborOf(clean []byte) []byte {
	var v any
	if err := json.Unmarshal(clean, &v); err != nil {
		return clean
	}
	data, err := direct.Marshal(v)
	if err != nil {
		return clean
	}
	return append([]byte("\xd9\xd9\xf7"), data...)
}

var patchTypes = []string{
	"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
	"application/apply-patch+yaml", "application/apply-patch+cbor", "application/json",
}

// patch gives the request a patch that fits its content type, as a rule.
func (m *Maker) patch(r *rand.Rand, q *Request, clean []byte) {
	contentType := q.Header.Get("Content-Type")
	q.Tactic = "patch " + contentType
	switch {
	case chance(r, 8):
		encoded(r, q, clean)
		q.Tactic += " as a patch"
		if !chance(r, 4) {
			q.Header.Set("Content-Type", contentType)
		}
	case contentType == "application/json-patch+json":
		q.Body = jsonPatch(r, clean)
	case contentType == "application/apply-patch+cbor":
		q.Body = scramble(r, cborOf(clean))
	default:
		if contentType == "application/strategic-merge-patch+json" && chance(r, 2) {
			q.Body = mutateObject(r, pick(r, strategicPatches), r.IntN(2))
			return
		}
		q.Body = mutateObject(r, string(clean), 1+r.IntN(3))
	}
}

// jsonPatch is a list of operations, on fields that the object has, as a rule.
func jsonPatch(r *rand.Rand, clean []byte) []byte {
	var root map[string]any
	if err := json.Unmarshal(clean, &root); err != nil {
		panic(err) // it was marshalled here
	}
	paths := []string{"", "/", "/-", "/metadata/labels", "/metadata/labels/~01", "/metadata/name", "/spec/-1", "/spec/containers/99999999999", "/metadata/managedFields", "/status/conditions/-", "/metadata/finalizers/0", "/a/b/c", "no slash", "/~"}
	paths = pointers(root, "", paths)
	var operations []any
	n := 1 + r.IntN(4)
	if chance(r, 100) {
		n = 10_001
	}
	for range n {
		operation := map[string]any{
			"op":   pick(r, []any{"add", "remove", "replace", "move", "copy", "test", "", "ADD", nil, json.Number("1")}),
			"path": pick(r, paths),
			"from": pick(r, paths),
		}
		switch {
		case n > 4:
			operation["op"], operation["path"], operation["from"] = "copy", "/metadata/annotations/a", "/metadata"
		case !chance(r, 8):
			operation["value"] = value(r)
		}
		if chance(r, 15) {
			delete(operation, pick(r, []string{"op", "path", "from"}))
		}
		operations = append(operations, operation)
	}
	return marshal(operations)
}

// pointers adds the JSON pointers of all values below v.
func pointers(v any, at string, to []string) []string {
	if at != "" {
		to = append(to, at)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			to = pointers(v[k], at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), to)
		}
	case []any:
		for i := range v {
			to = pointers(v[i], at+"/"+string(rune('0'+i%10)), to)
		}
	}
	return to
}
