// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// templates are files that objects are made of, parsed once.
type templates map[string]*template.Template

// render makes one of count objects of a file.
func (t templates) render(path string, params map[string]any, index, count int, to any) error {
	parsed := t[path]
	if parsed == nil {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if parsed, err = template.New(path).Funcs(functions).Parse(string(data)); err != nil {
			return err
		}
		t[path] = parsed
	}
	values := maps.Clone(params)
	if values == nil {
		values = map[string]any{}
	}
	values["Index"], values["Count"] = index, count
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(out.Bytes(), to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// functions are those that upstream's templates call.
var functions = template.FuncMap{
	"AddFloat":      func(a, b any) (float64, error) { return calculate(a, b, func(a, b float64) float64 { return a + b }) },
	"SubtractFloat": func(a, b any) (float64, error) { return calculate(a, b, func(a, b float64) float64 { return a - b }) },
	"MultiplyFloat": func(a, b any) (float64, error) { return calculate(a, b, func(a, b float64) float64 { return a * b }) },
	"DivideFloat":   func(a, b any) (float64, error) { return calculate(a, b, func(a, b float64) float64 { return a / b }) },
	"AddInt":        func(a, b any) (int, error) { return whole(a, b, func(a, b int) int { return a + b }) },
	"SubtractInt":   func(a, b any) (int, error) { return whole(a, b, func(a, b int) int { return a - b }) },
	"MultiplyInt":   func(a, b any) (int, error) { return whole(a, b, func(a, b int) int { return a * b }) },
	"DivideInt":     func(a, b any) (int, error) { return whole(a, b, func(a, b int) int { return a / b }) },
	"Mod":           func(a, b any) (int, error) { return whole(a, b, func(a, b int) int { return a % b }) },
	"Int":           func(a any) (int, error) { return whole(a, 0, func(a, _ int) int { return a }) },
	"JSON": func(a any) (string, error) {
		out, err := json.Marshal(a)
		return string(out), err
	},
}

func calculate(a, b any, f func(a, b float64) float64) (float64, error) {
	x, err := number(a)
	if err != nil {
		return 0, err
	}
	y, err := number(b)
	return f(x, y), err
}

func whole(a, b any, f func(a, b int) int) (int, error) {
	x, err := number(a)
	if err != nil {
		return 0, err
	}
	y, err := number(b)
	if err != nil {
		return 0, err
	}
	return f(int(math.Trunc(x)), int(math.Trunc(y))), nil
}

func number(a any) (float64, error) {
	return strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(a)), 64)
}
