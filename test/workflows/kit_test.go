// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

//go:build workflowkit

package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	gherkin "github.com/cucumber/gherkin/go/v42"
	messages "github.com/cucumber/messages/go/v34"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
)

// checkout names a checkout of github.com/serverlessworkflow/specification; the kit is in ctk there.
const checkout = "SERVERLESSWORKFLOW_SPECIFICATION"

// TestKit runs all scenarios of the kit as WorkflowRuns, and prints a table of them.
func TestKit(t *testing.T) {
	dir := os.Getenv(checkout)
	files, err := filepath.Glob(filepath.Join(dir, "ctk", "features", "*.feature"))
	if err != nil || dir == "" || len(files) == 0 {
		t.Fatalf("there are no features in %s/ctk/features: set %s to a checkout of https://github.com/serverlessworkflow/specification", dir, checkout)
	}
	run(t, newLoopback(t, standIns()))
	namespace := cluster.Namespace(t)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FEATURE\tSCENARIO\tRESULT")
	passed, all := 0, 0
	for _, file := range files {
		for _, p := range pickles(t, file) {
			s := &scenario{namespace: namespace}
			ok := t.Run(filepath.Base(file)+"/"+p.Name, func(t *testing.T) {
				for _, step := range p.Steps {
					s.step(t, step)
				}
			})
			result := "failed"
			if all++; ok {
				passed++
				result = "passed"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", strings.TrimSuffix(filepath.Base(file), ".feature"), p.Name, result)
		}
	}
	fmt.Fprintf(w, "%d features\t%d scenarios\t%d passed\n", len(files), all, passed)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

func pickles(t *testing.T, file string) []*messages.Pickle {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	id := 0
	next := func() string { id++; return strconv.Itoa(id) }
	document, err := gherkin.ParseGherkinDocument(bytes.NewReader(content), next)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return gherkin.Pickles(*document, file, next)
}

// scenario is one that is going on.
type scenario struct {
	namespace, document, input string
	run                        *workflowsv1alpha1.WorkflowRun
}

// steps are those that the kit's README describes and its features use.
func (s *scenario) steps() map[string]func(t *testing.T, text string, args []string) {
	status := func(want workflowsv1alpha1.Phase) func(*testing.T, string, []string) {
		return func(t *testing.T, text string, _ []string) {
			t.Helper()
			if got := s.run.Status; got.Phase != want {
				t.Fatalf("the run is %s: %+v", got.Phase, got.Error)
			}
			if text == "" {
				return
			}
			if want == workflowsv1alpha1.PhaseFaulted {
				encoded, _ := json.Marshal(s.run.Status.Error)
				equal(t, text, decode(t, encoded))
				return
			}
			equal(t, text, s.output(t))
		}
	}
	position := func(where func(ran []string) string) func(*testing.T, string, []string) {
		return func(t *testing.T, _ string, args []string) {
			t.Helper()
			if ran := s.ran(); where(ran) != args[0] {
				t.Errorf("the tasks ran in the order %v", ran)
			}
		}
	}
	order := func(sign int) func(*testing.T, string, []string) {
		return func(t *testing.T, _ string, args []string) {
			t.Helper()
			ran := s.ran()
			if a, b := index(ran, args[0]), index(ran, args[1]); a < 0 || b < 0 || (a-b)*sign <= 0 {
				t.Errorf("the tasks ran in the order %v", ran)
			}
		}
	}
	return map[string]func(*testing.T, string, []string){
		`a workflow with definition:`:               func(_ *testing.T, text string, _ []string) { s.document = text },
		`given the workflow input is:`:              func(_ *testing.T, text string, _ []string) { s.input = text },
		`the workflow is executed`:                  s.execute,
		`the workflow should complete`:              status(workflowsv1alpha1.PhaseCompleted),
		`the workflow should complete with output:`: status(workflowsv1alpha1.PhaseCompleted),
		`the workflow should fault`:                 status(workflowsv1alpha1.PhaseFaulted),
		`the workflow should fault with error:`:     status(workflowsv1alpha1.PhaseFaulted),
		`the workflow output should have properties (.+)`: func(t *testing.T, _ string, args []string) {
			t.Helper()
			for path := range strings.SplitSeq(args[0], ",") {
				s.property(t, strings.Trim(strings.TrimSpace(path), "'"))
			}
		},
		`the workflow output should have a '(.+)' property with value:`: func(t *testing.T, text string, args []string) {
			t.Helper()
			equal(t, text, s.property(t, args[0]))
		},
		`the workflow output should have a '(.+)' property containing (\d+) items`: func(t *testing.T, _ string, args []string) {
			t.Helper()
			if list, ok := s.property(t, args[0]).([]any); !ok || strconv.Itoa(len(list)) != args[1] {
				t.Errorf("%s is %v", args[0], list)
			}
		},
		`(\w+) should run first`:        position(func(ran []string) string { return ran[0] }),
		`(\w+) should run last`:         position(func(ran []string) string { return ran[len(ran)-1] }),
		`(\w+) should run before (\w+)`: order(-1),
		`(\w+) should run after (\w+)`:  order(1),
	}
}

// step does one step; exactly one of steps fits it.
func (s *scenario) step(t *testing.T, step *messages.PickleStep) {
	t.Helper()
	text := ""
	if step.Argument != nil && step.Argument.DocString != nil {
		text = step.Argument.DocString.Content
	}
	for pattern, do := range s.steps() {
		if args := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(strings.TrimSpace(step.Text)); args != nil {
			do(t, text, args[1:])
			return
		}
	}
	t.Fatalf("the kit has a step that is not known here: %s", step.Text)
}

func (s *scenario) execute(t *testing.T, _ string, _ []string) {
	t.Helper()
	s.run = await(t, create(t, s.namespace, s.document, s.input), "the end of the run", finished)
}

// ran returns the names of the tasks in the order in which they began.
func (s *scenario) ran() []string {
	var names []string
	for _, r := range s.run.Status.History {
		names = append(names, r.Task[strings.LastIndexByte(r.Task, '/')+1:])
	}
	return names
}

func index(list []string, name string) int {
	for i, item := range list {
		if item == name {
			return i
		}
	}
	return -1
}

func (s *scenario) output(t *testing.T) any {
	t.Helper()
	if s.run.Status.Output == nil {
		t.Fatal("the run has no output")
	}
	return decode(t, s.run.Status.Output.Raw)
}

// property returns what is at a path of names in the output.
func (s *scenario) property(t *testing.T, path string) any {
	t.Helper()
	value := s.output(t)
	for name := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		there, ok := object[name]
		if !ok {
			t.Fatalf("the output has no %s: %v", path, s.output(t))
		}
		value = there
	}
	return value
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func equal(t *testing.T, want string, got any) {
	t.Helper()
	if w := decode(t, []byte(want)); !reflect.DeepEqual(w, got) {
		t.Errorf("got %v, want %v", got, w)
	}
}

// standIns answers for the hosts that the kit calls.
func standIns() http.Handler {
	pet := func(id int) map[string]any { return map[string]any{"id": id, "name": "Milou", "status": "available"} }
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	parameter := func(name, in, kind string) map[string]any {
		return map[string]any{"name": name, "in": in, "required": true, "type": kind, "collectionFormat": "multi"}
	}
	get := func(id string, parameters ...any) map[string]any {
		return map[string]any{"get": map[string]any{"operationId": id, "parameters": parameters}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET petstore.swagger.io/v2/swagger.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"swagger": "2.0", "host": "petstore.swagger.io", "basePath": "/v2", "schemes": []string{"https", "http"},
			"paths": map[string]any{
				"/pet/findByStatus": get("findPetsByStatus", parameter("status", "query", "array")),
				"/pet/{petId}":      get("getPetById", parameter("petId", "path", "integer")),
			},
		})
	})
	mux.HandleFunc("GET petstore.swagger.io/v2/pet/findByStatus", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("status") != "available" {
			answer(w, []any{})
			return
		}
		answer(w, []any{pet(1), pet(2)})
	})
	mux.HandleFunc("GET petstore.swagger.io/v2/pet/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "not a number", http.StatusNotFound)
			return
		}
		answer(w, pet(id))
	})
	mux.HandleFunc("GET httpbin.org/basic-auth/{user}/{password}", func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if !ok || user != r.PathValue("user") || password != r.PathValue("password") {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		answer(w, map[string]any{"authenticated": true, "user": user})
	})
	return mux
}
