// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"fmt"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

// Load reads a state as it was written by json.Marshal.
func Load(text []byte) (*State, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	s := &State{}
	if err := decoder.Decode(s); err != nil {
		return nil, fmt.Errorf("reading the state of a run: %w", err)
	}
	s.Input, s.Context = dsl.Normalize(s.Input), dsl.Normalize(s.Context)
	if s.End != nil {
		s.End.Output = dsl.Normalize(s.End.Output)
	}
	s.Root.normalize()
	return s, nil
}

func (s *Sequence) normalize() {
	if s == nil {
		return
	}
	s.Data = dsl.Normalize(s.Data)
	s.Child.normalize()
}

func (f *Frame) normalize() {
	if f == nil {
		return
	}
	f.Raw, f.Input = dsl.Normalize(f.Raw), dsl.Normalize(f.Input)
	dsl.Normalize(f.Items)
	f.Body.normalize()
	for i := range f.Branches {
		f.Branches[i].Output = dsl.Normalize(f.Branches[i].Output)
		f.Branches[i].Frame.normalize()
	}
	if f.Listen != nil {
		dsl.Normalize(f.Listen.Outputs)
		for name, value := range f.Listen.Correlations {
			f.Listen.Correlations[name] = dsl.Normalize(value)
		}
	}
	if f.Result != nil {
		f.Result.Output = dsl.Normalize(f.Result.Output)
	}
}
