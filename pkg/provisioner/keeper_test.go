// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// lose makes the next call of its kind do its work and then fail.
func lose(client *fake.Clientset, err error) clienttesting.ReactionFunc {
	lost := false
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if lost {
			return false, nil, nil
		}
		lost = true
		if _, _, err := clienttesting.ObjectReaction(client.Tracker())(action); err != nil {
			return true, nil, err
		}
		return true, nil, err
	}
}

func keeperOf(t *testing.T, node *corev1.Node) (*Keeper, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(node)
	k, err := NewKeeper(KeeperConfig{NodeName: "n", Dir: filepath.Join(t.TempDir(), "volumes"), Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.informers.StartWithContext(ctx)
	k.informers.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		k.informers.Shutdown()
	})
	return k, client
}

func annotations(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Annotations
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		asked    directories
		reported directories
		left     []string
		fails    bool
	}{
		{"nothing", nil, directories{}, []string{"pvc-old"}, false},
		{"make", directories{"pvc-new": present}, directories{"pvc-new": present}, []string{"pvc-new", "pvc-old"}, false},
		{"make what is there", directories{"pvc-old": present}, directories{"pvc-old": present}, []string{"pvc-old"}, false},
		{"remove", directories{"pvc-old": absent}, directories{"pvc-old": absent}, nil, false},
		{"remove what is gone", directories{"pvc-none": absent}, directories{"pvc-none": absent}, []string{"pvc-old"}, false},
		{"one fails, the other does not", directories{"..": absent, "pvc-old": absent}, directories{"..": `".." is not the name of a volume`, "pvc-old": absent}, nil, true},
		{"elsewhere", directories{"../outside": absent}, directories{"../outside": `"../outside" is not the name of a volume`}, []string{"pvc-old"}, true},
		{"another state", directories{"pvc-old": "open"}, directories{"pvc-old": `a directory cannot be "open"`}, []string{"pvc-old"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			node := nodeWith(tc.asked, directories{"pvc-before": absent})
			k, client := keeperOf(t, node)
			outside := filepath.Join(filepath.Dir(k.Dir), "outside")
			for _, dir := range []string{outside, filepath.Join(k.Dir, "pvc-old", "data")} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.sync(t.Context(), "n"); (err != nil) != tc.fails {
				t.Fatalf("error is %v", err)
			}
			got := annotations(t, client)
			if diff := cmp.Diff(tc.reported, parse(got[annotationReported])); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if got[annotationDirectory] != k.Dir {
				t.Errorf("directory is %q", got[annotationDirectory])
			}
			entries, err := os.ReadDir(k.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
				if info, err := e.Info(); err != nil || tc.asked[e.Name()] == present && info.Mode() != fs.ModeDir|0o777 {
					t.Errorf("%s: %v, %v", e.Name(), info, err)
				}
			}
			if diff := cmp.Diff(tc.left, left); diff != "" {
				t.Errorf("directories (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(outside); err != nil {
				t.Error(err)
			}
		})
	}
}

// A report that the API server does not take is made again, and so is one whose answer is lost.
func TestKeeper_LostAnswer(t *testing.T) {
	t.Parallel()
	k, client := keeperOf(t, nodeWith(directories{"pvc-a": present}, nil))
	lost := errors.New("connection reset")
	client.PrependReactor("patch", "nodes", lose(client, lost))
	if err := k.sync(t.Context(), "n"); !errors.Is(err, lost) {
		t.Fatalf("error is %v, want %v", err, lost)
	}
	if err := k.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if got := parse(annotations(t, client)[annotationReported]); got["pvc-a"] != present {
		t.Errorf("reported %v", got)
	}
}

// TestKeeper_LongRemoval: what takes long keeps nobody waiting for what was done before.
func TestKeeper_LongRemoval(t *testing.T) {
	t.Parallel()
	k, client := keeperOf(t, nodeWith(directories{"pvc-a": absent, "pvc-b": present, "pvc-c": absent, "pvc-d": present}, directories{"pvc-c": "busy", "pvc-old": absent}))
	removed := directories{"pvc-b": present, "pvc-c": "busy", "pvc-d": present}
	k.remove = func(path string) error {
		if diff := cmp.Diff(removed, parse(annotations(t, client)[annotationReported])); diff != "" {
			t.Errorf("reported when %s is removed (-want +got):\n%s", filepath.Base(path), diff)
		}
		removed[filepath.Base(path)] = absent
		return nil
	}
	if err := k.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(removed, parse(annotations(t, client)[annotationReported])); diff != "" || len(removed) != 4 {
		t.Errorf("reported at the end (-want +got):\n%s", diff)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, client := keeperOf(t, node)
	again.Dir = k.Dir
	if err := again.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			t.Error("it reports again what it has reported")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.remove = func(path string) error {
		t.Errorf("%s is removed although the process ends", path)
		return nil
	}
	if err := k.sync(ctx, "n"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
