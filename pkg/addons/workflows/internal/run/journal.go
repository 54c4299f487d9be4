// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

const (
	// inlineBytes is the longest state that is kept in the run itself.
	inlineBytes = 32 << 10
	// MaxStateBytes is the longest state at all, before it is compressed: a run with more to remember faults.
	MaxStateBytes = 8 << 20
	// chunkBytes is how much of a compressed state is in one ConfigMap.
	chunkBytes = 700 << 10
	// chunkKey is where.
	chunkKey = "state.gz"
	// aheadKey is where the ConfigMap that is ahead of a status has it.
	aheadKey = "ahead.json"
	// RunLabel is on what is made for a run; its value is the run's UID.
	RunLabel = "workflows.minik8s.io/run-uid"
)

// tooLarge is an error about a state that nobody can keep.
type tooLarge int

func (n tooLarge) Error() string {
	return fmt.Sprintf("the run would have to remember %d bytes, and the limit is %d: let tasks put data elsewhere, and hand on where, "+
		"or leave out by output.as what is not needed", int(n), MaxStateBytes)
}

// journals writes and reads the states of runs.
type journals struct {
	client client.Client
	reader client.Reader // past the cache: a journal is read once
}

// write returns the journal of a state. What it needs beside the run is there when it returns.
func (j journals) write(
	ctx context.Context, run *workflowsv1alpha1.WorkflowRun, revision int64, s *engine.State,
) (*workflowsv1alpha1.Journal, error) {
	out := &workflowsv1alpha1.Journal{Revision: revision}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	switch {
	case len(text) > MaxStateBytes:
		return nil, tooLarge(len(text))
	case len(text) <= inlineBytes:
		out.State = &apiextensionsv1.JSON{Raw: text}
		return out, nil
	}
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestSpeed) // the level is one that there is
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(compressed.Bytes(), chunkBytes) {
		name := fmt.Sprintf("%s%d-%d", partsOf(run), out.Revision, len(out.ConfigMaps))
		m := partOf(run, name)
		m.BinaryData = map[string][]byte{chunkKey: chunk}
		// One of this name is from a write that was cut off before the run referred to it.
		if err := j.client.Create(ctx, m); apierrors.IsAlreadyExists(err) {
			err = j.client.Update(ctx, m)
			if err != nil {
				return nil, fmt.Errorf("writing a part of the journal: %w", err)
			}
		} else if err != nil {
			return nil, fmt.Errorf("writing a part of the journal: %w", err)
		}
		out.ConfigMaps = append(out.ConfigMaps, name)
	}
	return out, nil
}

// read returns the state of a run that has a journal.
func (j journals) read(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) (*engine.State, error) {
	journal := run.Status.Journal
	if journal.State != nil {
		return engine.Load(journal.State.Raw)
	}
	var compressed bytes.Buffer
	for _, name := range journal.ConfigMaps {
		var m corev1.ConfigMap
		if err := j.reader.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, &m); err != nil {
			return nil, fmt.Errorf("reading a part of the journal: %w", err)
		}
		compressed.Write(m.BinaryData[chunkKey])
	}
	r, err := gzip.NewReader(&compressed)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxStateBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return engine.Load(text)
}

// ahead is what a run has come to since its status was written.
type ahead struct {
	Revision int64                          `json:"revision"`
	State    json.RawMessage                `json:"state"`
	History  []workflowsv1alpha1.TaskRecord `json:"history,omitempty"`
}

// writeAhead writes what is ahead of a status into a ConfigMap, which is new or as it was last written or read, and returns it as it is then.
// A ConfigMap that somebody else has written since is a conflict.
func (j journals) writeAhead(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, old *corev1.ConfigMap, a ahead) (*corev1.ConfigMap, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	m := partOf(run, aheadOf(run))
	m.Data = map[string]string{aheadKey: string(text)}
	if old == nil {
		err = j.client.Create(ctx, m)
	} else {
		m.ResourceVersion = old.ResourceVersion
		err = j.client.Update(ctx, m)
	}
	return m, err
}

// readAhead returns the ConfigMap that may be ahead of the status, and what it has. It is nil if there is none.
func (j journals) readAhead(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) (*corev1.ConfigMap, ahead, error) {
	var m corev1.ConfigMap
	var a ahead
	err := j.reader.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: aheadOf(run)}, &m)
	if apierrors.IsNotFound(err) {
		return nil, a, nil
	}
	if err != nil {
		return nil, a, fmt.Errorf("reading what is ahead of the status: %w", err)
	}
	if err := json.Unmarshal([]byte(m.Data[aheadKey]), &a); err != nil {
		return nil, a, fmt.Errorf("reading %s of ConfigMap %s: %w", aheadKey, m.Name, err)
	}
	return &m, a, nil
}

// aheadOf is the name of the ConfigMap that may be ahead of a run's status.
func aheadOf(run *workflowsv1alpha1.WorkflowRun) string { return partsOf(run) + "ahead" }

// partOf returns an empty ConfigMap for a part of a run's journal.
func partOf(run *workflowsv1alpha1.WorkflowRun, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: run.Namespace, Name: name, Labels: map[string]string{RunLabel: string(run.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))},
	}}
}

// partsOf begins the names of the parts of a run's journals.
func partsOf(run *workflowsv1alpha1.WorkflowRun) string {
	return fmt.Sprintf("%s-journal-%.8s-", beginning(run.Name, 200), run.UID)
}

// forget deletes the parts of a journal that the next one does without. Who may write a run's status may have written other names there,
// and need not have the right to delete what is called so.
func (j journals) forget(ctx context.Context, run *workflowsv1alpha1.WorkflowRun, old, next *workflowsv1alpha1.Journal) error {
	if old == nil {
		return nil
	}
	for _, name := range old.ConfigMaps {
		if next != nil && slices.Contains(next.ConfigMaps, name) || !strings.HasPrefix(name, partsOf(run)) {
			continue
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: name}}
		if err := j.client.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting a part of the journal: %w", err)
		}
	}
	return nil
}
