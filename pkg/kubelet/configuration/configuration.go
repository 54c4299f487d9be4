// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package configuration reads the settings of a kubelet as upstream's kubelet takes them, a KubeletConfiguration. Touch it when
// the kubelet learns to honour one more of its fields: what is not listed in fields is refused, so that no setting is
// ignored in silence.
package configuration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const kind = "KubeletConfiguration"

// Default is what holds where nobody says otherwise.
func Default() *kubeletconfigv1beta1.KubeletConfiguration { return complete(presets()) }

func complete(c *kubeletconfigv1beta1.KubeletConfiguration) *kubeletconfigv1beta1.KubeletConfiguration {
	for _, f := range fields {
		if f.complete != nil {
			f.complete(c)
		}
	}
	return c
}

// presets are the defaults that files are laid over.
func presets() *kubeletconfigv1beta1.KubeletConfiguration {
	c := &kubeletconfigv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: kubeletconfigv1beta1.SchemeGroupVersion.String()},
	}
	for name, value := range fixed {
		text := fmt.Sprintf("{%q:%s}", name, value)
		if err := json.Unmarshal([]byte(text), c); err != nil {
			panic(fmt.Sprintf("%s: %v", text, err)) // a mistake in the list, which every test shows
		}
	}
	for _, f := range fields {
		if f.preset != nil {
			f.preset(c)
		}
	}
	return c
}

// Read returns the settings of a file, over the defaults. The files *.conf of a directory are laid over it in the order of their
// names: what they name counts, lists are replaced as a whole and maps joined (KEP-3983). Either may be "". All that is wrong
// is in the error, with its field.
func Read(file, dir string) (*kubeletconfigv1beta1.KubeletConfiguration, error) {
	c := presets()
	if file != "" {
		if err := lay(c, file); err != nil {
			return nil, err
		}
	}
	parts, err := dropIns(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := lay(c, p); err != nil {
			return nil, err
		}
	}
	if err := Validate(complete(c)).ToAggregate(); err != nil {
		return nil, fmt.Errorf("settings of the kubelet: %w", err)
	}
	return c, nil
}

// Masked returns settings that may be told: nothing in them is secret.
func Masked(c *kubeletconfigv1beta1.KubeletConfiguration) *kubeletconfigv1beta1.KubeletConfiguration {
	c = c.DeepCopy()
	for name := range c.StaticPodURLHeader {
		c.StaticPodURLHeader[name] = []string{masked}
	}
	return c
}

// masked stands for what is secret.
const masked = "<masked>"

// dropIns are the files of a directory and of those below it, in the order of their paths.
func dropIns(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".conf" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading settings of the kubelet: %w", err)
	}
	return all, nil
}

func lay(c *kubeletconfigv1beta1.KubeletConfiguration, file string) error {
	data, err := os.ReadFile(file)
	if err == nil {
		err = layData(c, data)
	}
	if err != nil {
		return fmt.Errorf("reading settings of the kubelet from %s: %w", file, err)
	}
	return nil
}

func layData(c *kubeletconfigv1beta1.KubeletConfiguration, data []byte) error {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	var own metav1.TypeMeta
	if err := json.Unmarshal(text, &own); err != nil {
		return err
	}
	if want := Default().TypeMeta; own != want {
		return fmt.Errorf("it is %s %s, want apiVersion: %s, kind: %s", own.APIVersion, own.Kind, want.APIVersion, want.Kind)
	}
	strict, err := sigsjson.UnmarshalStrict(text, c)
	if err = errors.Join(append(strict, err)...); err != nil {
		return err
	}
	var refused field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if err := honoured(c, name); err != nil {
			refused = append(refused, err)
		}
	}
	return refused.ToAggregate()
}

// honoured says why a field that a file has set in c cannot be followed.
func honoured(c *kubeletconfigv1beta1.KubeletConfiguration, name string) *field.Error {
	if name == "kind" || name == "apiVersion" || slices.ContainsFunc(fields, func(f setting) bool { return f.name == name }) {
		return nil
	}
	only, is := fixed[name]
	if !is && empty(valueOf(c, name)) {
		return nil // kubeadm and /configz say such fields, too
	} else if !is {
		return field.Forbidden(field.NewPath(name), "not supported by this kubelet")
	}
	if value := valueOf(c, name); !reflect.DeepEqual(value, valueOf(Default(), name)) {
		text, err := json.Marshal(value)
		if err != nil {
			return field.InternalError(field.NewPath(name), err)
		}
		return field.NotSupported(field.NewPath(name), string(text), []string{only})
	}
	return nil
}

// empty says whether a value says no more than none: in JSON it is that of the zero value.
func empty(value any) bool {
	t := reflect.TypeOf(value)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	zero, zerr := json.Marshal(reflect.Zero(t).Interface())
	text, err := json.Marshal(value)
	return zerr == nil && err == nil && bytes.Equal(zero, text)
}

// Validate returns what is wrong with settings.
func Validate(c *kubeletconfigv1beta1.KubeletConfiguration) field.ErrorList {
	var all field.ErrorList
	for _, f := range fields {
		if f.check == nil {
			continue
		}
		if problem := f.check(c); problem != "" {
			value := valueOf(c, f.name)
			if f.secret {
				value = masked
			}
			all = append(all, field.Invalid(field.NewPath(f.name), value, problem))
		}
	}
	return all
}

// valueOf is the value of a top-level field, by the name that it has in files.
func valueOf(c *kubeletconfigv1beta1.KubeletConfiguration, name string) any {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i).Interface()
		}
	}
	return nil
}
