// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision says what a revision of a function is: its name, how it is kept, and what its pods are. Touch it to change what
// makes a new revision, or how pods are run.
package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// Labels of what functions have.
const (
	// LabelManagedBy with the value Manager is on everything that the controllers make.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelFunction is the function's name.
	LabelFunction = "functions.minik8s.io/function"
	// LabelRevision is the revision's name.
	LabelRevision = "functions.minik8s.io/revision"
	// LabelPool is the runtime of a pod that no function has taken yet.
	LabelPool = "functions.minik8s.io/pool"
)

// Manager is the value of LabelManagedBy.
const Manager = "functions.minik8s.io"

// AnnotationPaths of a ConfigMap with code is a JSON object from keys to the paths of files, where these are not the keys themselves.
const AnnotationPaths = "functions.minik8s.io/paths"

// MaxBytes is how large the files of a function may be together. A revision is kept in a ConfigMap, which has 1 MiB at most.
const MaxBytes = 1000 << 10

// Template is what of a spec makes a revision, beside the files.
type Template struct {
	Runtime            v1alpha1.Runtime            `json:"runtime,omitempty"`
	Handler            string                      `json:"handler,omitempty"`
	Image              string                      `json:"image,omitempty"`
	Port               int32                       `json:"port,omitempty"`
	Env                []corev1.EnvVar             `json:"env,omitempty"`
	EnvFrom            []corev1.EnvFromSource      `json:"envFrom,omitempty"`
	Resources          corev1.ResourceRequirements `json:"resources"`
	ServiceAccountName string                      `json:"serviceAccountName,omitempty"`
	TimeoutSeconds     int32                       `json:"timeoutSeconds"`
}

// Revision is code with all that it needs to run.
type Revision struct {
	// Name is a hash of the rest.
	Name string
	// Template is how it runs.
	Template Template
	// Files are its code, by path; none of an image.
	Files map[string][]byte
}

// New returns the revision that a spec makes with files.
func New(spec *v1alpha1.FunctionSpec, files map[string][]byte) (Revision, error) {
	r := Revision{Files: files, Template: Template{
		Runtime: spec.Runtime, Image: spec.Source.Image, Env: spec.Env, EnvFrom: spec.EnvFrom, Resources: spec.Resources,
		ServiceAccountName: spec.ServiceAccountName, TimeoutSeconds: spec.TimeoutSeconds,
	}}
	if r.Template.Image != "" {
		r.Template.Port = spec.Port
	} else {
		r.Template.Handler = spec.Handler
	}
	size := 0
	for at, data := range files {
		if !localPath(at) {
			return r, fmt.Errorf("%q is no path of a file within the function's folder", at)
		}
		size += len(at) + len(data)
	}
	if size > MaxBytes {
		return r, fmt.Errorf("the code has %d KiB; at most %d fit: build an image and name it in source.image", size>>10, MaxBytes>>10)
	}
	data, err := json.Marshal(struct {
		Template Template
		Files    map[string][]byte
	}{r.Template, files})
	if err != nil {
		return r, fmt.Errorf("encoding the revision: %w", err)
	}
	sum := sha256.Sum256(data)
	r.Name = hex.EncodeToString(sum[:5])
	return r, nil
}

func localPath(at string) bool {
	return at != "" && at != "." && at != ".." && path.Clean(at) == at && !path.IsAbs(at) && !strings.HasPrefix(at, "../")
}

// Inline returns the file of a text that is the module of a handler.
func Inline(runtime v1alpha1.Runtime, handler, text string) map[string][]byte {
	module := handler[:max(strings.LastIndexByte(handler, '.'), 0)]
	extension := map[v1alpha1.Runtime]string{v1alpha1.Python: ".py", v1alpha1.Node: ".js"}[runtime]
	return map[string][]byte{strings.ReplaceAll(module, ".", "/") + extension: []byte(text)}
}

// FromConfigMap returns the files that a ConfigMap of the user's has.
func FromConfigMap(cm *corev1.ConfigMap) (map[string][]byte, error) {
	paths := map[string]string{}
	if text := cm.Annotations[AnnotationPaths]; text != "" {
		if err := json.Unmarshal([]byte(text), &paths); err != nil {
			return nil, fmt.Errorf("annotation %s of ConfigMap %s: %w", AnnotationPaths, cm.Name, err)
		}
	}
	files := map[string][]byte{}
	add := func(key string, data []byte) {
		if at := paths[key]; at != "" {
			key = at
		}
		files[key] = data
	}
	for key, text := range cm.Data {
		add(key, []byte(text))
	}
	for key, data := range cm.BinaryData {
		add(key, data)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("ConfigMap %s has no files", cm.Name)
	}
	return files, nil
}

// ToConfigMap returns a ConfigMap of the files for FromConfigMap.
func ToConfigMap(name string, files map[string][]byte) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{}}
	paths := map[string]string{}
	for i, at := range slices.Sorted(maps.Keys(files)) {
		key := at
		if !plainKey(at) {
			key = fmt.Sprintf("file-%d", i)
			paths[key] = at
		}
		cm.BinaryData[key] = files[at]
	}
	if len(paths) > 0 {
		text, err := json.Marshal(paths)
		if err != nil {
			return nil, fmt.Errorf("encoding paths: %w", err)
		}
		cm.Annotations = map[string]string{AnnotationPaths: string(text)}
	}
	return cm, nil
}

func plainKey(key string) bool {
	return len(key) <= 253 && !strings.HasPrefix(key, ".") && !strings.ContainsFunc(key, func(c rune) bool {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._", c)
		return !plain
	})
}

// keyTemplate is the key of the template in a revision's ConfigMap; the files are those of ToConfigMap.
const keyTemplate = "revision.minik8s.io"

// Keep returns the ConfigMap in which a revision of a function is kept.
func (r Revision) Keep(fn *v1alpha1.Function) (*corev1.ConfigMap, error) {
	cm, err := ToConfigMap(fn.Name+"-"+r.Name, r.Files)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r.Template)
	if err != nil {
		return nil, fmt.Errorf("encoding the revision: %w", err)
	}
	cm.Data = map[string]string{keyTemplate: string(text)}
	cm.Namespace, cm.Labels = fn.Namespace, Labels(fn.Name, r.Name)
	cm.OwnerReferences = []metav1.OwnerReference{Owner(fn)}
	immutable := true
	cm.Immutable = &immutable
	return cm, nil
}

// Read returns the revision that a ConfigMap keeps.
func Read(cm *corev1.ConfigMap) (Revision, error) {
	r := Revision{Name: cm.Labels[LabelRevision]}
	text, found := cm.Data[keyTemplate]
	if !found || r.Name == "" {
		return r, errors.New("ConfigMap " + cm.Name + " is none of a revision")
	}
	if err := json.Unmarshal([]byte(text), &r.Template); err != nil {
		return r, fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	if len(cm.BinaryData) > 0 {
		var err error
		r.Files, err = FromConfigMap(&corev1.ConfigMap{ObjectMeta: cm.ObjectMeta, BinaryData: cm.BinaryData})
		return r, err
	}
	return r, nil
}

// Labels are those of what belongs to a revision of a function, or to the function alone.
func Labels(function, revision string) map[string]string {
	labels := map[string]string{LabelManagedBy: Manager, LabelFunction: function}
	if revision != "" {
		labels[LabelRevision] = revision
	}
	return labels
}

// Owner is the reference to a function by which what it has goes with it.
func Owner(fn *v1alpha1.Function) metav1.OwnerReference {
	return *metav1.NewControllerRef(fn, v1alpha1.GroupVersion.WithKind("Function"))
}

// OwnerReferences are those of what goes with a function.
func OwnerReferences(fn *v1alpha1.Function) []metav1.OwnerReference {
	return []metav1.OwnerReference{Owner(fn)}
}

// IsOwner tells whether a reference is to a function, and not to one of the same name before it.
func IsOwner(fn *v1alpha1.Function) func(metav1.OwnerReference) bool {
	return func(r metav1.OwnerReference) bool { return r.UID == fn.UID }
}
