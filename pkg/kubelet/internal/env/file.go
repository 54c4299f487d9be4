// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (r *resolver) file(ref *corev1.FileKeySelector) (string, bool, error) {
	data, err := r.src.EnvFile(r.pod, ref.VolumeName, ref.Path)
	if err != nil {
		return optional(ref.Optional, errors.Is(err, fs.ErrNotExist), fmt.Errorf("couldn't parse env file: %w", err))
	}
	vars, err := parseFile(string(data))
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	value, ok := vars[ref.Key]
	if !ok {
		return optional(ref.Optional, true, fmt.Errorf("environment variable key %q not found in file", ref.Key))
	}
	return value, true, nil
}

// parseFile reads the env file syntax of KEP-3721, the part of shell syntax that all shells read alike: lines of
// NAME='value', where a value is in single quotes and may span lines, blank lines and # comments.
func parseFile(text string) (map[string]string, error) {
	vars := map[string]string{}
	for line := 1; text != ""; {
		head, rest, _ := strings.Cut(text, "\n")
		trimmed := strings.TrimSpace(head)
		if trimmed == "" || trimmed[0] == '#' {
			text = rest
			line++
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimLeft(name, " \t")
		if !ok || strings.Contains(name, "\n") {
			return nil, fmt.Errorf("line %d: no assignment", line)
		}
		if errs := validation.IsEnvVarName(name); len(errs) > 0 {
			return nil, fmt.Errorf("line %d: invalid name %q: %s", line, name, strings.Join(errs, ";"))
		}
		value, ok = strings.CutPrefix(value, "'")
		if !ok {
			return nil, fmt.Errorf("line %d: the value of %s is not in single quotes", line, name)
		}
		value, tail, ok := strings.Cut(value, "'")
		if !ok {
			return nil, fmt.Errorf("line %d: the quote of %s is not closed", line, name)
		}
		tail, text, _ = strings.Cut(tail, "\n")
		if tail = strings.TrimSpace(tail); tail != "" && tail[0] != '#' {
			return nil, fmt.Errorf("line %d: text after the value of %s", line, name)
		}
		vars[name] = value
		line += strings.Count(value, "\n") + 1
	}
	return vars, nil
}
