// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf16"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

const number = "1e-99999999"

// Whatever is expensive makes what it is in suspect.
func TestSuspect(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 100000 {
		text := make([]byte, r.IntN(12))
		for i := range text {
			text[i] = "00000123459.eE+-xk"[r.IntN(18)]
		}
		if !quantity.Expensive(string(text)) {
			continue
		}
		found++
		if body := `{"a":"` + string(text) + `"}`; !suspect([]byte(body)) {
			t.Fatalf("%s is not suspect", body)
		}
	}
	if found < 500 {
		t.Errorf("only %d were found: the texts do not try much", found)
	}
}

func TestCheckText(t *testing.T) {
	t.Parallel()
	escaped := strings.ReplaceAll(number, "e", `\u0065`)
	deep := strings.Repeat(`[`, 1<<20)
	for name, tc := range map[string]struct {
		body string
		want bool
	}{
		"request":                       {`{"spec":{"containers":[{"resources":{"requests":{"cpu":"` + number + `"}}}]}}`, true},
		"as a number":                   {`{"spec":{"capacity":{"storage":1e99999999}}}`, true},
		"many digits":                   {`{"spec":{"capacity":{"storage":"` + strings.Repeat("1", 1<<20) + `"}}}`, true},
		"size limit":                    {`{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"` + number + `"}}]}}`, true},
		"escaped":                       {`{"spec":{"capacity":{"storage":"` + escaped + `"}}}`, true},
		"escaped name":                  {`{"spec":{"c\u0061pacity":{"storage":"` + number + `"}}}`, true},
		"twice, cheap at last":          {`{"spec":{"hard":{"pods":"` + number + `","pods":"1"}}}`, true},
		"twice, a level up":             {`{"spec":{"hard":{"pods":"` + number + `"},"hard":{"pods":"1"}}}`, true},
		"after a list":                  {`{"spec":{"list":[1,{"a":[]}],"hard":{"x":{},"pods":"` + number + `"}}}`, true},
		"in a list":                     {`{"spec":{"hard":{"pods":["` + number + `"]}}}`, true},
		"huge pages":                    {`{"spec":{"hard":{"hugepages-` + number + `":"1"}}}`, true},
		"huge pages, a label":           {`{"metadata":{"labels":{"hugepages-` + number + `":"1"}}}`, false},
		"target":                        {`{"spec":{"metrics":[{"resource":{"target":{"value":"` + number + `"}}}]}}`, true},
		"yaml":                          {"spec:\n  hard:\n    pods: \"" + number + "\"\n", true},
		"yaml, escaped":                 {"spec:\n  hard:\n    pods: \"1\\x65-99999999\"\n", true},
		"yaml, on two lines":            {"spec:\n  hard:\n    pods: \"1e-99\\\n      999999\"\n", true},
		"yaml, on two lines, NEL":       {"spec:\n  hard:\n    pods: \"1e-99\\\u0085999999\"\n", true},
		"yaml, on two lines, LS":        {"spec:\n  hard:\n    pods: \"1e-99\\\u2028999999\"\n", true},
		"yaml, on two lines, PS":        {"spec:\n  hard:\n    pods: \"1e-99\\\u2029999999\"\n", true},
		"yaml, UTF-16":                  {utf16Text(binary.LittleEndian, "spec: {hard: {pods: \""+number+"\"}}"), true},
		"yaml, UTF-16, big":             {utf16Text(binary.BigEndian, "spec: {hard: {pods: \""+number+"\"}}"), true},
		"capacity of a device":          {`{"spec":{"devices":[{"capacity":{"mem":{"value":"` + number + `"}}}]}}`, true},
		"counter of devices":            {`{"spec":{"sharedCounters":[{"counters":{"c":{"value":"` + number + `"}}}]}}`, true},
		"metric of a container, status": {`{"status":{"currentMetrics":[{"resource":{"current":{"value":"` + number + `"}}}]}}`, true},
		"yaml, binary":                  {"spec:\n  hard:\n    pods: !!binary MWUtOTk5OTk5OTk=\n", true},
		"yaml, a named tag":             {"%TAG !b! tag:yaml.org,2002:\n---\nspec:\n  hard:\n    pods: !b!binary MWUtOTk5OTk5OTk=\n", true},
		"yaml, an alias":                {"a: &x \"" + number + "\"\nspec: {hard: {pods: *x}}\n", true},
		"yaml, merged":                  {"a: &x {pods: \"" + number + "\"}\nspec: {hard: {<<: *x}}\n", true},
		"large but usual":               {`{"spec":{"hard":{"pods":"1e3"}}}`, false},
		"label":                         {`{"metadata":{"labels":{"commit":"4e1234567"}}}`, false},
		"selector":                      {`{"spec":{"selector":{"matchLabels":{"commit":"4e1234567"}}}}`, false},
		"environment":                   {`{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"4e1234567"}]}]}}`, false},
		"data":                          {`{"data":{"cpu":"` + number + `"}}`, false},
		"longer text":                   {`{"spec":{"hard":{"pods":"see 1e99999999"}}}`, false},
		"no object":                     {`1e99999999`, false},
		"broken":                        {`{"spec":{"hard":{"pods":"` + number, false},
		"very deep":                     {deep + number, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkText([]byte(tc.body))
			if apierrors.IsBadRequest(err) != tc.want || err != nil && !tc.want {
				t.Errorf("error is %v, want any: %v", err, tc.want)
			}
		})
	}
}

// utf16Text is text in UTF-16, with the mark of its byte order.
func utf16Text(order binary.AppendByteOrder, text string) string {
	data := order.AppendUint16(nil, 0xfeff)
	for _, r := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, r)
	}
	return string(data)
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`[{"resource":{"targetAverageValue":"` + number + `"}}]`: true, `{"ScaleUp":{"TOLERANCE":` + number + `}}`: true,
		`{"ScaleUp":{"Tolerance":"0.1"}}`: false, `no JSON`: false,
	} {
		if err := Embedded(text); apierrors.IsBadRequest(err) != want || err != nil && !want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The names by which quantities are found are those that kinds have.
func TestNamesOfQuantities(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"limits", "requests", "overhead", "hard", "used", "capacity", "allocatable", "default", "defaultRequest", "maxLimitRequestRatio"} {
		if !isQuantity(place{parent: field, field: "cpu"}) {
			t.Errorf("%s are no quantities", field)
		}
	}
	for _, field := range []string{"sizeLimit", "divisor", "averageValue", "maximumVolumeSize"} {
		if !isQuantity(place{field: field}) {
			t.Errorf("%s is no quantity", field)
		}
	}
	for _, field := range []string{"capacity", "counters"} {
		if !isQuantity(place{outer: field, parent: "memory", field: "value"}) {
			t.Errorf("values of %s are no quantities", field)
		}
	}
}

func TestCheckPatch(t *testing.T) {
	t.Parallel()
	read := func(verb, mediaType, body string) (string, error) {
		r := httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", mediaType)
		checkPatch(r, &apirequest.RequestInfo{Verb: verb})
		data, err := io.ReadAll(r.Body)
		return string(data), err
	}
	const strategic, apply = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
	bad := fmt.Sprintf(`{"spec":{"hard":{"pods":%q}}}`, number)
	fine := `{"spec":{"hard":{"pods":"10"}},"metadata":{"labels":{"commit":"4e1234567"}}}`
	large := strings.Repeat("x", maxBody+100)
	for _, tc := range []struct {
		name, verb, mediaType, body string
		refused                     bool
	}{
		{"strategic merge patch", "patch", strategic, bad, true},
		{"with a parameter", "patch", strategic + "; charset=utf-8", bad, true},
		{"with a parameter that is none", "patch", strategic + ";;", bad, true},
		{"applied", "patch", apply, bad, true},
		{"fine", "patch", apply, fine, false},
		{"large", "patch", apply, large, false},
		{"seen by the decoder", "patch", "application/merge-patch+json", bad, false},
		{"a deletion", "delete", strategic, bad, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(tc.verb, tc.mediaType, tc.body)
			switch {
			case tc.refused && !apierrors.IsBadRequest(err):
				t.Errorf("error is %v, want a bad request", err)
			case !tc.refused && (err != nil || got != tc.body):
				t.Errorf("read %d bytes of %d, %v", len(got), len(tc.body), err)
			}
		})
	}
}

func withCPU(cpu string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}}}}
}
