// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

var (
	supported = regexp.MustCompile(`^1\.0\.\d+(-.*)?$`)
	semver    = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// ParseText reads a document in YAML or JSON, as Parse does.
func ParseText(text []byte, path *field.Path) (*Workflow, field.ErrorList) {
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("neither YAML nor JSON: %v", err))}
	}
	value, err := Decode(encoded)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return Parse(value, path)
}

// Decode reads JSON into what expressions work on: whole numbers are of type int, or big if they must be.
func Decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("not JSON: there is something behind its end")
	}
	return Normalize(value), nil
}

// Normalize turns the numbers of a decoded value into what expressions work on.
func Normalize(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n
		}
		f, _ := v.Float64()
		return f
	case int64:
		return int(v)
	case float64:
		if v == float64(int(v)) && v < 1<<53 && v > -1<<53 {
			return int(v)
		}
	case []any:
		for i := range v {
			v[i] = Normalize(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = Normalize(v[name])
		}
	}
	return value
}

// Parse reads a document, and says what is wrong with it by the paths of its fields below path. A document with problems is nil.
func Parse(document any, path *field.Path) (*Workflow, field.ErrorList) {
	w := &Workflow{
		Tasks: map[string]*Task{}, Lists: map[string][]*Task{}, Expressions: &expression.Evaluator{},
		Use: Use{
			Authentications: map[string]map[string]any{}, Errors: map[string]map[string]any{}, Functions: map[string]string{},
			Retries: map[string]*Retry{}, Timeouts: map[string]*Timeout{},
		},
	}
	r := &reader{workflow: w}
	root := node{document, path}
	w.Source = r.object(root, "document", "input", "use", "do", "timeout", "output", "schedule", "evaluate")
	if w.Source == nil {
		return nil, r.problems
	}
	if n, ok := r.need(root, "document"); ok {
		r.document(n)
	}
	if n, ok := r.child(root, "evaluate"); ok {
		r.object(n, "language", "mode")
		r.oneOf(n, "language", "jq", "jq")
		w.Expressions.Loose = r.oneOf(n, "mode", "strict", "strict", "loose") == "loose"
	}
	if n, ok := r.child(root, "schedule"); ok {
		r.invalid(n, "schedules are not supported: make WorkflowRuns, by a CronJob for example")
	}
	w.Input, w.Output = r.data(root, "input", "from"), r.data(root, "output", "as")
	w.Timeout = r.timeout(root)
	if n, ok := r.child(root, "use"); ok {
		r.use(n)
	}
	if n, ok := r.need(root, "do"); ok {
		r.list(n, "/do")
	}
	for _, check := range r.later {
		check()
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return w, nil
}

func (r *reader) document(n node) {
	r.object(n, "dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata")
	for _, name := range []string{"dsl", "namespace", "name", "version"} {
		r.need(n, name)
	}
	check := func(name string, format *regexp.Regexp, what string) string {
		value := r.text(n, name, "")
		if c, ok := r.child(n, name); ok && !format.MatchString(value) {
			r.invalid(c, "must be %s", what)
		}
		return value
	}
	check("dsl", supported, "a version of the DSL that is known here: 1.0")
	check("namespace", dnsLabel, "a DNS label")
	r.workflow.Name = check("name", dnsLabel, "a DNS label")
	r.workflow.Version = check("version", semver, "a semantic version, such as 1.0.0")
}

// use reads what tasks refer to by name.
func (r *reader) use(n node) {
	r.object(n, "authentications", "catalogs", "errors", "extensions", "functions", "retries", "secrets", "timeouts")
	for _, name := range []string{"catalogs", "extensions"} {
		if c, ok := r.child(n, name); ok {
			r.invalid(c, "not supported")
		}
	}
	use := &r.workflow.Use
	each := func(property string, read func(name string, c node)) {
		c, ok := r.child(n, property)
		if !ok {
			return
		}
		object := r.object(c)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			read(name, node{object[name], c.path.Key(name)})
		}
	}
	each("authentications", func(name string, c node) { use.Authentications[name] = r.authentication(c) })
	each("errors", func(name string, c node) { use.Errors[name] = r.error(c) })
	each("retries", func(name string, c node) { use.Retries[name] = r.retryObject(c) })
	each("timeouts", func(name string, c node) { use.Timeouts[name] = r.timeoutObject(c) })
	each("functions", func(name string, c node) {
		reference := pointer("/use/functions", name)
		use.Functions[name] = reference
		r.task(c, name, reference)
	})
	if c, ok := r.child(n, "secrets"); ok {
		list, ok := c.value.([]any)
		if !ok {
			r.invalid(c, "must be a list of names of Secrets")
		}
		for i, item := range list {
			name, ok := item.(string)
			if !ok || name == "" {
				r.invalid(node{item, c.path.Index(i)}, "must be the name of a Secret")
			}
			use.Secrets = append(use.Secrets, name)
		}
	}
}

// list reads a list of tasks, each an object with one property: its name.
func (r *reader) list(n node, reference string) string {
	items, ok := n.value.([]any)
	if !ok {
		r.problems = append(r.problems, field.TypeInvalid(n.path, n.value, "must be a list of tasks"))
		return reference
	}
	tasks := make([]*Task, 0, len(items))
	seen := map[string]bool{}
	for i, item := range items {
		path := n.path.Index(i)
		object, ok := item.(map[string]any)
		if !ok || len(object) != 1 {
			r.invalid(node{item, path}, "must be an object with one property, whose name is the task's; indent what the task has below it")
			continue
		}
		for name, definition := range object {
			if seen[name] {
				r.problems = append(r.problems, field.Duplicate(path, name))
			}
			seen[name] = true
			tasks = append(tasks, r.task(node{definition, path.Child(name)}, name, pointer(fmt.Sprintf("%s/%d", reference, i), name)))
		}
	}
	r.workflow.Lists[reference] = tasks
	return reference
}

// target checks that a directive of flow leads to somewhere in a list.
func (r *reader) target(n node, list, directive string) {
	if directive == "" || directive == Continue || directive == Exit || directive == End {
		return
	}
	names := []string{Continue, Exit, End}
	for _, t := range r.workflow.Lists[list] {
		names = append(names, t.Name)
	}
	if !slices.Contains(names, directive) {
		r.problems = append(r.problems, field.NotSupported(n.path, directive, names))
	}
}

// pointer returns the JSON pointer of a property.
func pointer(parent, name string) string {
	return parent + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// parent returns the reference of the list that a task is in: without the position and the name.
func parent(reference string) string {
	for range 2 {
		reference = reference[:max(strings.LastIndexByte(reference, '/'), 0)]
	}
	return reference
}
