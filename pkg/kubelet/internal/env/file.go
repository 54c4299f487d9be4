// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// NoVolumeError is that the pod has no volume that a file is to be in.
type NoVolumeError struct{ Volume string }

func (e *NoVolumeError) Error() string {
	return fmt.Sprintf("cannot find the volume %q referenced by FileKeyRef", e.Volume)
}

// file looks a key up in a file. As upstream's, what is wrong with the file only the log tells, a file that is not there is wrong whether
// or not the key is optional, and a key without a value is none.
func (r *resolver) file(ref *corev1.FileKeySelector) (string, bool, error) {
	data, at, err := r.src.EnvFile(r.pod, ref.VolumeName, ref.Path)
	if errors.As(err, new(*NoVolumeError)) {
		return "", false, err
	}
	value := ""
	if err == nil {
		value, err = lookUp(data, ref.Key)
	}
	if err != nil {
		klog.Background().Error(err, "Failed to parse env file", "pod", klog.KObj(r.pod), "volume", ref.VolumeName, "path", ref.Path)
		return "", false, errors.New("couldn't parse env file")
	}
	if value == "" {
		return optional(ref.Optional, true, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, at))
	}
	return value, true, nil
}

// lookUp finds a key in the env file syntax of KEP-3721, the part of shell syntax that all shells read alike: lines of NAME='value',
// where a value is in single quotes and may span lines, blank lines and # comments. It reads no further than to the first of that name. A
// value that is apart from its name (NAME= 'value') is empty, as it is for a shell.
func lookUp(text []byte, key string) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	n := 0
	next := func() bool { n++; return lines.Scan() }
	for next() {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, is := strings.Cut(line, "=")
		switch {
		case !is:
			return "", fmt.Errorf("line %d: no assignment", n)
		case name == "" || strings.TrimRight(name, " \t") != name:
			return "", fmt.Errorf("line %d: no name, or a space before =", n)
		case strings.TrimLeft(value, " \t") != value && name == key:
			return "", nil
		case strings.TrimLeft(value, " \t") != value:
			continue
		}
		began := n
		rest, is := strings.CutPrefix(value, "'")
		if !is {
			return "", fmt.Errorf("line %d: the value of %s is not in single quotes", n, name)
		}
		var whole strings.Builder
		for {
			part, tail, closed := strings.Cut(rest, "'")
			whole.WriteString(part)
			if tail = strings.TrimLeft(tail, " \t"); tail != "" && tail[0] != '#' {
				return "", fmt.Errorf("line %d: text after the value of %s", n, name)
			}
			if closed {
				break
			}
			whole.WriteByte('\n')
			if !next() {
				return "", fmt.Errorf("line %d: the quote of %s is not closed", began, name)
			}
			rest = lines.Text()
		}
		if name == key {
			return whole.String(), nil
		}
	}
	return "", lines.Err()
}
