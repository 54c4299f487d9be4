// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package corpus holds valid objects of every kind, from which all others are made. Touch seeds/ when a kind, or a way to
// fill one, is not there.
package corpus

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed seeds
var seeds embed.FS

//go:embed scenarios
var scenarios embed.FS

// Seed is one valid object. Its status, if it has one, is what is written to /status.
type Seed struct {
	// Name is the name of the object with its kind; reviews have no names, all others are unique.
	Name   string
	Object map[string]any
}

// Kind is the kind of the object.
func (s Seed) Kind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(field(s.Object, "apiVersion"), field(s.Object, "kind"))
}

// ObjectName is the name of the object.
func (s Seed) ObjectName() string {
	m, _ := s.Object["metadata"].(map[string]any)
	return field(m, "name")
}

// Step is a request of a scenario.
type Step struct {
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	As          string   `json:"as"`
	Groups      []string `json:"groups"`
	Accept      string   `json:"accept"`
	ContentType string   `json:"contentType"`
	Body        any      `json:"body"`
	// Await repeats the request until upstream's answer has this code: what caches of the server see, comes a moment later.
	Await int `json:"await"`
}

// Scenario is a row of requests, each compared.
type Scenario struct {
	Name  string
	Steps []Step
}

// Seeds returns all seeds, in the order of files and of documents in them.
func Seeds() ([]Seed, error) {
	var all []Seed
	err := documents(seeds, "seeds", func(_ string, d *yaml.YAMLOrJSONDecoder) error {
		var o map[string]any
		if err := d.Decode(&o); err != nil || o == nil {
			return err
		}
		s := Seed{Object: o}
		s.Name = strings.ToLower(s.Kind().Kind + "." + s.Kind().Version + "-" + s.ObjectName())
		if s.ObjectName() != "" && slices.ContainsFunc(all, func(other Seed) bool { return other.Name == s.Name }) {
			return fmt.Errorf("%s is there twice", s.Name)
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

// Scenarios returns all scenarios, one per file.
func Scenarios() ([]Scenario, error) {
	var all []Scenario
	err := documents(scenarios, "scenarios", func(file string, d *yaml.YAMLOrJSONDecoder) error {
		var s Step
		if err := d.Decode(&s); err != nil || s.Method == "" {
			return err
		}
		name := strings.TrimSuffix(path.Base(file), ".yaml")
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, Scenario{Name: name})
		}
		last := &all[len(all)-1]
		last.Steps = append(last.Steps, s)
		return nil
	})
	return all, err
}

func documents(files fs.FS, root string, read func(file string, d *yaml.YAMLOrJSONDecoder) error) error {
	return fs.WalkDir(files, root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			if err := read(file, d); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	})
}

func field(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}
