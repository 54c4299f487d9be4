// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	corepod "minik8s.io/minik8s/pkg/apis/core/pod"
	"minik8s.io/minik8s/pkg/apis/core/podreference"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
)

// MaxManifest is how many bytes a manifest may have.
const MaxManifest = 10 << 20

// Origin is where a manifest comes from.
type Origin struct {
	// Source is File or HTTP.
	Source string
	// Location is the path or the URL.
	Location string
	// Node is the name of this node.
	Node string
}

// strict refuses fields that are unknown or there twice.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// Parse makes a static pod out of the manifest of one Pod, in JSON or YAML. It fails if the API would not take the pod, or if
// the pod needs another object of the API, which a static pod has no right to. seen is when the pod was first seen.
func Parse(data []byte, from Origin, seen time.Time) (*corev1.Pod, error) {
	obj, err := decode(data)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("it is a %s, want a v1 Pod", kindOf(obj))
	}
	return complete(pod, from, seen)
}

// ParseAll makes static pods out of the manifest of a Pod or a PodList. One that is no good spoils all.
func ParseAll(data []byte, from Origin, seen time.Time) ([]*corev1.Pod, error) {
	obj, err := decode(data)
	if err != nil {
		return nil, err
	}
	var all []*corev1.Pod
	switch o := obj.(type) {
	case *corev1.Pod:
		all = append(all, o)
	case *corev1.PodList:
		for i := range o.Items {
			all = append(all, &o.Items[i])
		}
	default:
		return nil, fmt.Errorf("it is a %s, want a v1 Pod or PodList", kindOf(obj))
	}
	var errs []error
	for i, pod := range all {
		name := pod.Name
		if all[i], err = complete(pod, from, seen); err != nil {
			errs = append(errs, fmt.Errorf("pod %d, %q: %w", i, name, err))
		}
	}
	return all, errors.Join(errs...)
}

func kindOf(obj runtime.Object) string {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return gvk.GroupVersion().String() + " " + gvk.Kind
}

func decode(data []byte) (runtime.Object, error) {
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("it has more than %d bytes", MaxManifest)
	}
	document, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	obj, _, err := strict.Decode(document, nil, nil)
	return obj, err
}

// onlyDocument is the one document of a YAML stream that is not empty. More than one would be read by nobody.
func onlyDocument(data []byte) ([]byte, error) {
	if utilyaml.IsJSONBuffer(data) {
		return data, nil
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var found []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSONStrict(document)
		switch {
		case err != nil:
			return nil, err
		case string(text) == "null":
		case found != nil:
			return nil, errors.New("it has more than one document")
		default:
			found = text
		}
	}
	if found == nil {
		return nil, errors.New("it is empty")
	}
	return found, nil
}

// complete makes a static pod of what a manifest says.
func complete(pod *corev1.Pod, from Origin, seen time.Time) (*corev1.Pod, error) {
	switch {
	case pod.Name == "":
		return nil, errors.New("invalid pod: name is needed for the pod")
	case len(pod.Finalizers) > 0 || len(pod.OwnerReferences) > 0:
		return nil, errors.New("invalid pod: a static pod has neither finalizers nor owners")
	}
	pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
			Labels: pod.Labels, Annotations: maps.Clone(pod.Annotations),
		},
		Spec: pod.Spec,
	}
	for _, key := range []string{sourceKey, hashKey, seenKey, corev1.MirrorPodAnnotationKey} {
		delete(pod.Annotations, key)
	}
	if err := identify(pod, from); err != nil {
		return nil, err
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[sourceKey] = from.Source
	pod.Annotations[hashKey] = string(pod.UID)
	pod.Annotations[seenKey] = seen.Format(time.RFC3339Nano)
	pod.Name += "-" + strings.ToLower(from.Node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = from.Node
	if from.Source == File {
		tolerate(&pod.Spec)
	}
	prioritize(&pod.Spec)
	corepod.SetDefaults(pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if err := check(pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// ownUID is what a manifest may say: it becomes part of paths.
var ownUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// identify gives a pod a uid that another form of it has not. It is made of what the manifest says, so that new defaults change
// nothing.
func identify(pod *corev1.Pod, from Origin) error {
	if pod.UID != "" {
		if !ownUID.MatchString(string(pod.UID)) {
			return fmt.Errorf("invalid pod: metadata.uid: %q must be up to 63 letters, digits and dashes", pod.UID)
		}
		return nil
	}
	data, err := json.Marshal(pod)
	if err != nil {
		return fmt.Errorf("hashing pod: %w", err)
	}
	h := fnv.New128a()
	_, _ = h.Write(data)
	_, _ = fmt.Fprintf(h, "host:%s%s:%s", from.Node, from.Source, from.Location)
	pod.UID = types.UID(hex.EncodeToString(h.Sum(nil)))
	return nil
}

// tolerate lets nobody evict the pod for a taint of the node.
func tolerate(s *corev1.PodSpec) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool { return apiequality.Semantic.DeepEqual(t, all) }) {
		s.Tolerations = append(slices.Clone(s.Tolerations), all)
	}
}

// critical are the priorities of the classes that every cluster has; what other classes are worth, only the API knows.
var critical = map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

func prioritize(s *corev1.PodSpec) {
	if value, is := critical[s.PriorityClassName]; is && s.Priority == nil {
		s.Priority = &value
	}
}

func check(pod *corev1.Pod) error {
	errs := apivalidation.ValidateObjectMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs = append(errs, corepod.ValidateCreate(pod)...); len(errs) > 0 {
		return fmt.Errorf("invalid pod: %w", errs.ToAggregate())
	}
	enabled := pod.Spec.DeepCopy()
	if podspec.DropDisabled(enabled, nil); !apiequality.Semantic.DeepEqual(enabled, &pod.Spec) {
		return errors.New("invalid pod: it has fields of features that are off by default")
	}
	switch resource, err := podreference.Resource(pod); {
	case err != nil:
		return err
	case resource != "":
		return fmt.Errorf("static pods may not reference %s", resource)
	}
	return nil
}

// Same says whether two forms of a static pod differ in nothing but when they were seen.
func Same(a, b *corev1.Pod) bool {
	c := *b
	c.Annotations = maps.Clone(b.Annotations)
	if seen, is := a.Annotations[seenKey]; is {
		c.Annotations[seenKey] = seen
	}
	return apiequality.Semantic.DeepEqual(a, &c)
}

// SeenAs is pod with the time at which an earlier form of it was first seen.
func SeenAs(pod, earlier *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Annotations[seenKey] = earlier.Annotations[seenKey]
	return pod
}
