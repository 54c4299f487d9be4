// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtime is the languages that functions are written in: of each the image, which needs the interpreter only, and the server
// that runs in it. Touch it to add a language.
package runtime

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

//go:embed server.py
var serverPython string

//go:embed server.js
var serverNode string

// ConfigMap in the namespace kube-system has the settings, each of which has a default: image.RUNTIME, pool.RUNTIME.
const ConfigMap = "minik8s-functions"

// Port is where the servers listen.
const Port = 8080

// TokenVariable is the environment variable with what the controller proves itself by to a server.
const TokenVariable = "MINIK8S_TOKEN"

// Runtime is a language.
type Runtime struct {
	// Image has the interpreter.
	Image string
	// Command runs the server. It has no reference to a variable that the kubelet would expand.
	Command []string
	// Pool is how many pods are kept ready in a namespace that has functions of the language, for any of these to take.
	Pool int
}

// Settings are all languages.
type Settings map[v1alpha1.Runtime]Runtime

// MaxPool is the largest pool.
const MaxPool = 50

// Read returns the settings that a ConfigMap's data says. What it does not say is the default, and so is what is wrong in it, which the
// error is about.
func Read(data map[string]string) (Settings, error) {
	settings := Settings{
		v1alpha1.Python: {Image: "minik8s.io/function-python:1", Command: []string{"python3", "-u", "-c", serverPython}, Pool: 1},
		v1alpha1.Node:   {Image: "minik8s.io/function-node:1", Command: []string{"node", "-e", serverNode}, Pool: 0},
	}
	var wrong []string
	for key, value := range data {
		what, name, _ := strings.Cut(key, ".")
		r, known := settings[v1alpha1.Runtime(name)]
		switch {
		case known && what == "image" && value != "":
			r.Image = value
		case known && what == "pool":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > MaxPool {
				wrong = append(wrong, fmt.Sprintf("%s: %q is no number from 0 to %d", key, value, MaxPool))
				continue
			}
			r.Pool = n
		default:
			wrong = append(wrong, fmt.Sprintf("%s: there is no such setting", key))
			continue
		}
		settings[v1alpha1.Runtime(name)] = r
	}
	if len(wrong) > 0 {
		return settings, fmt.Errorf("ConfigMap kube-system/%s: %s", ConfigMap, strings.Join(wrong, "; "))
	}
	return settings, nil
}
