// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// probe stands for the number in messages, and is as long: its exponent is small, so that the real decoder can be asked whether
// it reads it as a quantity.
const probe = "12345678955"

// field writes a field whose type and length take some bytes more than needed.
func field(number protowire.Number, wire protowire.Type, padding int, content []byte) []byte {
	return append(padded(padded(nil, protowire.EncodeTag(number, wire), padding), uint64(len(content)), padding), content...)
}

func padded(out []byte, v uint64, padding int) []byte {
	out = protowire.AppendVarint(out, v)
	for range padding {
		out[len(out)-1] |= 0x80
		out = append(out, 0)
	}
	return out
}

// messages that the generated code reads as a pod with the probe as its CPU, in strange ways.
func strange(t *testing.T) map[string][]byte {
	t.Helper()
	quantity := func(padding int) []byte { return field(1, protowire.BytesType, padding, []byte(probe)) }
	entry := func(padding int, wire protowire.Type, value []byte) []byte {
		return append(field(1, wire, padding, []byte("cpu")), field(2, wire, padding, value)...)
	}
	in := func(padding int, entry []byte) []byte {
		for _, number := range []protowire.Number{2, 8, 2, 2} { // requests, resources, containers, spec
			entry = field(number, protowire.BytesType, padding, entry)
		}
		return entry
	}
	unknown := field(77, protowire.BytesType, 0, []byte("x"))
	group := append(protowire.AppendTag(nil, 99, protowire.StartGroupType), protowire.AppendTag(nil, 99, protowire.EndGroupType)...)
	usual, err := withCPU(probe).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	cheap := field(1, protowire.BytesType, 0, []byte("1"))
	return map[string][]byte{
		"usual":                      usual,
		"by hand":                    in(0, entry(0, protowire.BytesType, quantity(0))),
		"padded":                     in(3, entry(3, protowire.BytesType, quantity(3))),
		"unknown field in quantity":  in(0, entry(0, protowire.BytesType, append(bytes.Clone(unknown), quantity(0)...))),
		"unknown field after it":     in(0, entry(0, protowire.BytesType, append(quantity(0), unknown...))),
		"group in quantity":          in(0, entry(0, protowire.BytesType, append(bytes.Clone(group), quantity(0)...))),
		"unknown field in entry":     in(0, append(bytes.Clone(unknown), entry(0, protowire.BytesType, quantity(0))...)),
		"entry of another wire type": in(0, entry(0, protowire.VarintType, quantity(0))),
		"twice, cheap first":         in(0, entry(0, protowire.BytesType, append(bytes.Clone(cheap), quantity(0)...))),
	}
}

func TestDecoders_Protobuf(t *testing.T) {
	t.Parallel()
	for name, message := range strange(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{}
			if err := p.Unmarshal(message); err != nil || p.Spec.Containers[0].Resources.Requests.Cpu().String() != probe {
				t.Fatalf("the message does not try anything: it is read as %v, %v", p, err)
			}
			if err := decode(enveloped(t, message, "Pod")); err != nil {
				t.Errorf("a cheap quantity: %v", err)
			}
			if err := decode(enveloped(t, bytes.ReplaceAll(message, []byte(probe), []byte(number)), "Pod")); !apierrors.IsBadRequest(err) {
				t.Errorf("error is %v, want a bad request", err)
			}
			if err := decode(enveloped(t, bytes.ReplaceAll(message, []byte(probe), []byte(number)), "")); !apierrors.IsBadRequest(err) {
				t.Errorf("error without a kind is %v, want a bad request", err)
			}
		})
	}
}

// enveloped is a message as it comes over the wire.
func enveloped(t *testing.T, message []byte, kind string) []byte {
	t.Helper()
	u := runtime.Unknown{Raw: message}
	if kind != "" {
		u.APIVersion, u.Kind = "v1", kind
	}
	data, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(protobufPrefix), data...)
}

// decode decodes as the handlers do, each time for a pod.
func decode(data []byte) error {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	guarded := Decoders(codecs, clientgoscheme.Scheme)
	media := runtime.ContentTypeJSON
	if bytes.HasPrefix(data, protobufPrefix) {
		media = runtime.ContentTypeProtobuf
	} else if data[0] != '{' {
		media = runtime.ContentTypeYAML
	}
	info, _ := runtime.SerializerInfoForMediaType(guarded.SupportedMediaTypes(), media)
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	_, _, err := guarded.DecoderToVersion(info.Serializer, schema.GroupVersion{Version: "v1"}).Decode(data, &kind, &corev1.Pod{})
	return err
}

func TestDecoders_Text(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want bool
	}{
		"JSON":   {`{"kind":"Pod","apiVersion":"v1","spec":{"overhead":{"cpu":"` + number + `"}}}`, true},
		"YAML":   {"kind: Pod\napiVersion: v1\nspec:\n  overhead:\n    cpu: " + number + "5x\n    memory: '" + number + "'\n", true},
		"label":  {`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"cpu":"` + number + `"}}}`, false},
		"simple": {`{"kind":"Pod","apiVersion":"v1"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := decode([]byte(tc.body)); apierrors.IsBadRequest(err) != tc.want || err != nil && !tc.want {
				t.Errorf("error is %v, want a bad request: %v", err, tc.want)
			}
		})
	}
}

// A message of a kind that is converted to another one is read as what it is: this event, read as one of the core group, would
// have its texts where that has messages.
func TestDecoders_Converted(t *testing.T) {
	t.Parallel()
	e := &eventsv1.Event{ReportingController: "scheduler", ReportingInstance: "node-4e1234567", Reason: "Scheduled", Action: "Binding"}
	e.Name = "web-7d4e12345"
	message, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d := careful{scheme: clientgoscheme.Scheme}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"}, Raw: message}
	data, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	defaults := eventsv1.SchemeGroupVersion.WithKind("Event")
	if data = append(bytes.Clone(protobufPrefix), data...); !suspect(data) {
		t.Fatal("the message is not looked at")
	}
	if err := d.check(data, &defaults, &corev1.Event{}); err != nil {
		t.Errorf("an event is refused: %v", err)
	}
	u.TypeMeta = runtime.TypeMeta{}
	if data, err = u.Marshal(); err != nil {
		t.Fatal(err)
	}
	if err := d.check(append(bytes.Clone(protobufPrefix), data...), &defaults, &corev1.Event{}); err != nil {
		t.Errorf("an event without a kind is refused: %v", err)
	}
}

func TestCheckMessage(t *testing.T) {
	t.Parallel()
	standIn := resource.MustParse(probe)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{
		Resource: &autoscalingv2.ResourceMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: &standIn}},
	}}}}
	list := &corev1.PodList{Items: []corev1.Pod{*withCPU(probe)}}
	labelled := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"commit": probe, probe: "commit"}}}
	revision := func(text string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"limits":{"cpu":"` + text + `"}}`)}}
	}
	for name, tc := range map[string]struct {
		obj  interface{ Marshal() ([]byte, error) }
		want bool
	}{
		"pod": {withCPU(probe), true}, "scaler": {scaler, true}, "list": {list, true}, "label": {labelled, false},
		"revision": {revision(number), true}, "revision, escaped": {revision(`1\u0065-99999999`), true}, "usual revision": {revision("100m"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := tc.obj.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			body := []byte(strings.ReplaceAll(string(data), probe, number))
			if err := checkMessage(body, reflect.TypeOf(tc.obj)); apierrors.IsBadRequest(err) != tc.want || err != nil && !tc.want {
				t.Errorf("error is %v, want a bad request: %v", err, tc.want)
			}
		})
	}
	huge := withCPU("1")
	huge.Spec.Overhead = corev1.ResourceList{corev1.ResourceName("hugepages-" + number): resource.MustParse("1")}
	data, err := huge.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkMessage(data, reflect.TypeOf(huge)); !apierrors.IsBadRequest(err) {
		t.Errorf("huge pages of an expensive size: error is %v, want a bad request", err)
	}
	for name, malformed := range map[string][]byte{
		"number too large":  append(protowire.AppendVarint(nil, (1<<32+2)<<3|2), number...),
		"cut":               append([]byte{0x12, 0x7f}, number...),
		"tag without end":   append(bytes.Repeat([]byte{0x80}, 11), number...),
		"group without end": append(protowire.AppendTag(nil, 99, protowire.StartGroupType), field(1, protowire.BytesType, 0, []byte(number))...),
	} {
		if err := checkMessage(malformed, reflect.TypeFor[*corev1.Pod]()); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: error is %v, want a bad request", name, err)
		}
	}
}
