// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func parse(t *testing.T, s string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func differs(check, path, upstream, ours string) Difference {
	return Difference{Check: check, Path: path, Upstream: upstream, Ours: ours}
}

// unsaid compares differences without the texts that explanations look at.
var unsaid = cmpopts.IgnoreFields(Difference{}, "Says")

const refusal = `{"kind":"Status","apiVersion":"v1","reason":"Invalid","message":"no","details":{"name":"x","kind":"Pod","causes":[{"reason":"FieldValueRequired","field":"spec.a"}]}}`

// TestAnswers proves for every comparison that it can fail, and does not where it must not.
func TestAnswers(t *testing.T) {
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"a":1}}`
	table := `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","priority":0},{"name":"Age","priority":0}],"rows":[{"cells":["p","5s"],"object":{"metadata":{"name":"p"}}}]}`
	podList := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"},"spec":{"x":1}},{"metadata":{"name":"b"}}]}`
	limits := `{"kind":"LimitRange","apiVersion":"v1","spec":{"limits":[{"default":{"cpu":"100m"}}]}}`
	service := `{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"},"spec":{"clusterIPs":["10.0.0.20"],"ports":[{"nodePort":30100}]}}`
	services := `{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"clusterIPs":["10.0.0.20"]}},{"metadata":{"name":"b"},"spec":{"clusterIPs":["10.0.0.21"]}}]}`
	causesSay := `{"kind":"Status","apiVersion":"v1","reason":"Invalid","message":"all","details":{"causes":[{"reason":"FieldValueInvalid","field":"spec.a","message":"must be a"},{"reason":"FieldValueInvalid","field":"spec.b","message":"Invalid value: {\"A\":{\"B\":\"}\"}}: bad"}]}}`
	for _, c := range []struct {
		name         string
		up, ours     string
		upCode, code int
		warned       []string
		contentType  string
		want         []Difference
		changeInOurs [2]string
	}{
		{name: "same", up: pod, ours: pod},
		{name: "volatile", up: pod, changeInOurs: [2]string{`"11111111-1111-1111-1111-111111111111","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z"`, `"21111111-1111-1111-1111-111111111111","resourceVersion":"6","creationTimestamp":"2026-01-01T00:00:09Z"`}},
		{name: "accept", up: refusal, ours: pod, upCode: 422, want: []Difference{differs("accept", "FieldValueRequired spec.a", "422 Invalid FieldValueRequired spec.a", "200 accepted")}},
		{name: "accept the other way", up: pod, ours: refusal, code: 422, want: []Difference{differs("accept", "FieldValueRequired spec.a", "200 accepted", "422 Invalid FieldValueRequired spec.a")}},
		{name: "accept without causes", up: `{"kind":"Status","apiVersion":"v1","reason":"NotFound"}`, ours: pod, upCode: 404, want: []Difference{differs("accept", "404 NotFound -> 200 accepted", "404 NotFound", "200 accepted")}},
		{name: "code", up: refusal, ours: refusal, upCode: 422, code: 400, want: []Difference{differs("code", "422 Invalid -> 400 Invalid", "422 Invalid FieldValueRequired spec.a", "400 Invalid FieldValueRequired spec.a")}},
		{name: "code of success", up: pod, ours: pod, code: 201, want: []Difference{differs("code", "200 accepted -> 201 accepted", "200 accepted", "201 accepted")}},
		{name: "reason", up: refusal, upCode: 422, code: 422, changeInOurs: [2]string{`"Invalid"`, `"Forbidden"`}, want: []Difference{differs("reason", "", "Invalid", "Forbidden")}},
		{name: "cause field", up: refusal, upCode: 422, code: 422, changeInOurs: [2]string{"spec.a", "spec.b"}, want: []Difference{
			differs("cause", "FieldValueRequired spec.a", "FieldValueRequired spec.a", "-"), differs("cause", "FieldValueRequired spec.b", "-", "FieldValueRequired spec.b")}},
		{name: "cause type", up: refusal, upCode: 422, code: 422, changeInOurs: [2]string{"FieldValueRequired", "FieldValueInvalid"}, want: []Difference{
			differs("cause", "FieldValueRequired spec.a", "FieldValueRequired spec.a", "-"), differs("cause", "FieldValueInvalid spec.a", "-", "FieldValueInvalid spec.a")}},
		{name: "message", up: refusal, upCode: 422, code: 422, changeInOurs: [2]string{`"no"`, `"never"`}, want: []Difference{differs("message", "", "no", "never")}},
		{name: "details", up: refusal, upCode: 422, code: 422, changeInOurs: [2]string{`"kind":"Pod"`, `"kind":"pods"`}, want: []Difference{differs("details", "", "kind Pod", "kind pods")}},
		{name: "warning", up: pod, ours: pod, warned: []string{"299 - \"old\""}, want: []Difference{differs("warning", "299 - \"old\"", "-", "299 - \"old\"")}},
		{name: "media type", up: pod, ours: pod, contentType: "application/yaml", want: []Difference{differs("media type", "", "application/json", "application/yaml")}},
		{name: "kind", up: pod, changeInOurs: [2]string{`"v1"`, `"v2"`}, want: []Difference{differs("kind", "", "v1 Pod", "v2 Pod")}},
		{name: "message of a cause", up: causesSay, upCode: 422, code: 422, changeInOurs: [2]string{"must be a", "must be b"}, want: []Difference{differs("message", "", "spec.a: must be a", "spec.a: must be b")}},
		{name: "message of a code", up: refusal, upCode: 500, code: 400, changeInOurs: [2]string{`"no"`, `"never"`}, want: []Difference{
			differs("code", "500 Invalid -> 400 Invalid", "500 Invalid FieldValueRequired spec.a", "400 Invalid FieldValueRequired spec.a"), differs("message", "", "no", "never")}},
		{name: "objects in messages", up: causesSay, upCode: 422, code: 422, changeInOurs: [2]string{`{\"A\":{\"B\":\"}\"}}`, `{\"a\":null}`}},
		{name: "quantity", up: limits, changeInOurs: [2]string{`"100m"`, `"200m"`}, want: []Difference{differs("object", "spec.limits[0].default.cpu", `"100m"`, `"200m"`)}},
		{name: "allocated twice", up: services, changeInOurs: [2]string{`10.0.0.21`, `10.0.0.20`}, want: []Difference{differs("allocation", "a second time", "-", "address 10.0.0.20 of a and b")}},
		{name: "other addresses", up: services, changeInOurs: [2]string{`10.0.0.21`, `10.0.0.22`}},
		{name: "address out of range", up: service, changeInOurs: [2]string{`10.0.0.20`, `10.0.0.5`}, want: []Difference{differs("object", "spec.clusterIPs[0]", `"\u003cclusterIP\u003e"`, `"10.0.0.5"`)}},
		{name: "node port out of range", up: service, changeInOurs: [2]string{`30100`, `30001`}, want: []Difference{differs("object", "spec.ports[0].nodePort", `"\u003cport\u003e"`, `"30001"`)}},
		{name: "value", up: pod, changeInOurs: [2]string{`"a":1`, `"a":2`}, want: []Difference{differs("object", "spec.a", "1", "2")}},
		{name: "spelling of a number", up: pod, changeInOurs: [2]string{`"a":1`, `"a":1.0`}, want: []Difference{differs("object", "spec.a", "1", "1.0")}},
		{name: "missing and additional", up: pod, changeInOurs: [2]string{`"a":1`, `"b":1`}, want: []Difference{differs("object", "spec.a", "1", "-"), differs("object", "spec.b", "-", "1")}},
		{name: "age", up: table, changeInOurs: [2]string{`5s`, `7s`}},
		{name: "cell", up: table, changeInOurs: [2]string{`"5s"`, `"old"`}, want: []Difference{differs("row", "Age", `"\u003cage\u003e"`, `"old"`)}},
		{name: "column", up: table, changeInOurs: [2]string{`"Age"`, `"Old"`}, want: []Difference{differs("column", "Age", "Age", "-"), differs("column", "Old", "-", "Old")}},
		{name: "priority of a column", up: table, changeInOurs: [2]string{`"priority":0}]`, `"priority":1}]`}, want: []Difference{differs("column", "Age.priority", "0", "1")}},
		{name: "order of columns", up: table, changeInOurs: [2]string{`{"name":"Name","priority":0},{"name":"Age","priority":0}`, `{"name":"Age","priority":0},{"name":"Name","priority":0}`}, want: []Difference{differs("column", "order", "Name,Age", "Age,Name")}},
		{name: "row", up: table, changeInOurs: [2]string{`{"cells":["p","5s"],"object":{"metadata":{"name":"p"}}}`, ``}, want: []Difference{differs("row", "a whole row", "p", "-")}},
		{name: "item", up: podList, changeInOurs: [2]string{`,{"metadata":{"name":"b"}}`, ``}, want: []Difference{differs("item", "a whole item", "b", "-")}},
		{name: "in an item", up: podList, changeInOurs: [2]string{`"x":1`, `"x":2`}, want: []Difference{differs("object", "spec.x", "1", "2")}},
		{name: "order of items", up: podList, changeInOurs: [2]string{`{"metadata":{"name":"a"},"spec":{"x":1}},{"metadata":{"name":"b"}}`, `{"metadata":{"name":"b"}},{"metadata":{"name":"a"},"spec":{"x":1}}`}, want: []Difference{differs("item", "order", "a,b", "b,a")}},
		{name: "order of addresses chosen at random", up: `{"kind":"IPAddressList","apiVersion":"v1","items":[{"metadata":{"name":"10.0.0.20"},"spec":{"of":"a"}},{"metadata":{"name":"10.0.0.30"},"spec":{"of":"b"}}]}`,
			changeInOurs: [2]string{`10.0.0.20"},"spec":{"of":"a"}},{"metadata":{"name":"10.0.0.30"},"spec":{"of":"b"}`, `10.0.0.25"},"spec":{"of":"b"}},{"metadata":{"name":"10.0.0.40"},"spec":{"of":"a"}`}},
		{name: "events", up: `[{"type":"ADDED","object":` + pod + `}]`, changeInOurs: [2]string{`ADDED`, `MODIFIED`}, want: []Difference{differs("item", "a whole item", "ADDED p", "-"), differs("item", "a whole item", "-", "MODIFIED p")}},
		{name: "fewer events", up: `[{"type":"ADDED","object":` + pod + `},{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1"}}]`, ours: `{"type":"ADDED","object":` + pod + `}`,
			want: []Difference{differs("item", "a whole item", "BOOKMARK ", "-")}},
		{name: "order of rules", up: `{"kind":"SelfSubjectRulesReview","apiVersion":"v1","status":{"resourceRules":[{"verbs":["get"]},{"verbs":["list"]}]}}`,
			changeInOurs: [2]string{`{"verbs":["get"]},{"verbs":["list"]}`, `{"verbs":["list"]},{"verbs":["get"]}`}},
		{name: "rules", up: `{"kind":"SelfSubjectRulesReview","apiVersion":"v1","status":{"resourceRules":[{"verbs":["get"]}]}}`,
			changeInOurs: [2]string{`get`, `list`}, want: []Difference{differs("object", "status.resourceRules[0].verbs[0]", `"get"`, `"list"`)}},
		{name: "text", up: `"ok"`, ours: `"no"`, want: []Difference{differs("object", "", `"ok"`, `"no"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours := c.ours
			if ours == "" {
				if ours = strings.Replace(c.up, c.changeInOurs[0], c.changeInOurs[1], 1); ours == c.up {
					t.Fatal("the change changes nothing")
				}
			}
			answer := func(code int, body string) Answer {
				if code == 0 {
					code = 200
				}
				return Answer{Code: code, ContentType: "application/json", Body: parse(t, body)}
			}
			u, o := answer(c.upCode, c.up), answer(c.code, ours)
			o.Warnings = c.warned
			if c.contentType != "" {
				o.ContentType = c.contentType
			}
			if diff := cmp.Diff(c.want, Answers(u, o, nil), unsaid); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNormalizeKeepsWhatWasSent: what the request had is no choice of the server.
func TestNormalizeKeepsWhatWasSent(t *testing.T) {
	body := parse(t, `{"metadata":{"generateName":"made-","name":"made-abcde"},"time":"2026-01-01T00:00:00Z","ip":"10.0.0.70","nodePort":30101,"rows":"80:31234/TCP"}`)
	if diff := cmp.Diff(parse(t, `{"metadata":{"generateName":"made-","name":"made-<random>"},"time":"<time>","ip":"<clusterIP>","nodePort":"<port>","rows":"80:<port>/TCP"}`), Normalize(body, nil)); diff != "" {
		t.Error(diff)
	}
	known := Strings(body)
	if diff := cmp.Diff(parse(t, `{"metadata":{"generateName":"made-","name":"made-abcde"},"time":"2026-01-01T00:00:00Z","ip":"10.0.0.70","nodePort":30101,"rows":"80:31234/TCP"}`), Normalize(body, known)); diff != "" {
		t.Error(diff)
	}
	mode := Strings(parse(t, `{"defaultMode":420}`))
	if diff := cmp.Diff(parse(t, `{"resourceVersion":"<resourceVersion>"}`), Normalize(parse(t, `{"resourceVersion":"420"}`), mode)); diff != "" {
		t.Errorf("by chance the same: %s", diff)
	}
}

func TestDocuments(t *testing.T) {
	doc := `{"openapi":"3.0.0","components":{"schemas":{"A":{"type":"object","required":["x","y"]},"B":{}}},"paths":{"/a":{"get":{"operationId":"a"}}}}`
	for _, c := range []struct {
		name, from, to string
		want           []Difference
	}{
		{name: "order of a set", from: `["x","y"]`, to: `["y","x"]`},
		{name: "head", from: `3.0.0`, to: `3.1.0`, want: []Difference{differs("document", "openapi", `"3.0.0"`, `"3.1.0"`)}},
		{name: "missing schema", from: `,"B":{}`, to: ``, want: []Difference{differs("schema", "B", "there", "-")}},
		{name: "in a schema", from: `"type":"object"`, to: `"type":"string"`, want: []Difference{differs("schema", "A type", `"object"`, `"string"`)}},
		{name: "required", from: `["x","y"]`, to: `["x"]`, want: []Difference{differs("schema", `A required."y"`, "true", "-")}},
		{name: "path", from: `"/a"`, to: `"/b"`, want: []Difference{differs("path", "/a", "there", "-"), differs("path", "/b", "-", "there")}},
		{name: "operation", from: `"operationId":"a"`, to: `"operationId":"b"`, want: []Difference{differs("path", "/a get.operationId", `"a"`, `"b"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, o := Answer{Code: 200, Body: parse(t, doc)}, Answer{Code: 200, Body: parse(t, strings.Replace(doc, c.from, c.to, 1))}
			if diff := cmp.Diff(c.want, Documents(u, o)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if d := Documents(Answer{Code: 200}, Answer{Code: 404}); len(d) != 1 || d[0].Check != "code" {
		t.Errorf("a document that is not there: %v", d)
	}
}
