// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// fields are values for metadata, some of which a client may send, some of which it may not, some of which are nonsense.
var fields = map[string][]string{
	"resourceVersion":            {`""`, `"0"`, `"1"`, `"-1"`, `"abc"`, `"99999999999999999999"`, `"9223372036854775807"`, `1`, `"1.5"`, `" 1"`},
	"uid":                        {`""`, `"x"`, `"11111111-1111-1111-1111-111111111111"`, `1`, `"\u0000"`},
	"generation":                 {`0`, `-1`, `9223372036854775807`, `"1"`, `1.5`},
	"selfLink":                   {`"/x"`, `""`},
	"namespace":                  {`"kept"`, `""`, `"fuzz-1"`, `"a/b"`, `".."`},
	"generateName":               {`"a-"`, `""`, `"-"`, `"` + strings.Repeat("g", 300) + `"`, `"A"`, `"a/"`, `"\ud800"`},
	"creationTimestamp":          {`null`, `"2020-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"10000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"x"`, `1`, `"2020-01-01T00:00:00.999999999+14:00"`},
	"deletionTimestamp":          {`null`, `"2020-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `""`, `"0000-01-01T00:00:00Z"`},
	"deletionGracePeriodSeconds": {`0`, `-1`, `9223372036854775807`, `"1"`},
	"finalizers":                 {`[]`, `["example.com/a"]`, `["orphan"]`, `["foregroundDeletion","orphan"]`, `["a","a"]`, `[""]`, `[null]`, `["kubernetes"]`, `{}`, `["a/b/c"]`},
	"ownerReferences": {`[]`, `[null]`, `[{}]`, `[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]`, `[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]`,
		`[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"b","uid":"v","controller":true}]`, `[{"apiVersion":"a/b/c","kind":"","name":"","uid":""}]`,
		`[{"apiVersion":"v1","kind":"Node","name":"node-x","uid":"u","blockOwnerDeletion":true}]`, `[{"apiVersion":"nothing.io/v1","kind":"X","name":"a","uid":"u","blockOwnerDeletion":true}]`, `[{"apiVersion":"v1","kind":"Event","name":"a","uid":"u"}]`},
	"managedFields": {`[]`, `[{}]`, `[null]`, `{}`, `[{"manager":"x","operation":"Apply"}]`, `[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]`,
		`[{"manager":"x","operation":"Apply","apiVersion":"v1","time":"x","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]`, `[{"manager":"x","operation":"Apply","apiVersion":"nothing/v9","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV2","fieldsV1":{"f:a":{}}}]`, `[{"operation":"Bad","fieldsV1":[]}]`, `[{"manager":"` + strings.Repeat("m", 200) + `","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":"text"}]`, `[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"k:{\"name\":1e999}":{},"v:{":{},"i:-1":{},"i:x":{},"":{},"q:":{},".":{".":1}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","subresource":"nothing","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:ports":{"k:{\"port\":[]}":{},"k:{\"port\":{}}":{},"k:null":{},"k:[]":{},"v:[]":{},"v:{}":{}}}}}]`,
		`[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":` + strings.Repeat(`{"f:a":`, 2000) + `{}` + strings.Repeat(`}`, 2000) + `}]`},
	"labels":      {`null`, `{}`, `{"":""}`, `{"a/b/c":"x"}`, `{"a":null}`, `{"a":1}`, `[]`, `{"a":"` + strings.Repeat("l", 64) + `"}`},
	"annotations": {`null`, `{"":""}`, `{"a":1}`, `{"kubectl.kubernetes.io/last-applied-configuration":"{"}`, `{"a":"` + strings.Repeat("x", 300_000) + `"}`, `[]`},
	"name":        {`""`, `null`, `1`, `"a/b"`, `".."`, `"%2f"`, `"A"`, `"` + strings.Repeat("n", 260) + `"`},
	"clusterName": {`"x"`},
}

var fieldOrder = sortedKeys(fields)

// metadata gives an object some of these fields.
func metadata(r *rand.Rand, o map[string]any) {
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	for range 1 + r.IntN(3) {
		field := pick(r, fieldOrder)
		meta[field] = json.RawMessage(pick(r, fields[field]))
	}
	if chance(r, 30) {
		o["metadata"] = json.RawMessage(pick(r, []string{`null`, `[]`, `1`, `""`, `{"metadata":{}}`}))
	}
}
