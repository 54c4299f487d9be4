// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/transfer"
)

// archives stands in for tar in a pod: the tar of this machine reads a directory of its own. What is asked for goes wrong once.
type archives struct {
	directory string

	mu    sync.Mutex
	wrong []func(ctx context.Context, w io.Writer) error // guarded by mu
}

func (a *archives) archive(ctx context.Context, _ client.ObjectKey, directory string, w io.Writer) error {
	a.mu.Lock()
	if len(a.wrong) > 0 {
		wrong := a.wrong[0]
		a.wrong = a.wrong[1:]
		a.mu.Unlock()
		return wrong(ctx, w)
	}
	a.mu.Unlock()
	inside, ok := strings.CutPrefix(directory, mounted)
	if !ok {
		return fmt.Errorf("no volume is at %s", directory)
	}
	return tarOf(ctx, filepath.Join(a.directory, inside), w)
}

func tarOf(ctx context.Context, directory string, w io.Writer) error {
	cmd := exec.CommandContext(ctx, "tar", "-C", directory, "-c", "-f", "-", ".")
	var complaints strings.Builder
	cmd.Stdout, cmd.Stderr = w, &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, complaints.String())
	}
	return nil
}

// newVolumeWorld has a volume of which a directory is the source, with a program that writes what is in other files.
func newVolumeWorld(t *testing.T, path string) (*world, *archives) {
	t.Helper()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{
		Source:  &batchv1alpha1.Source{Volume: &batchv1alpha1.VolumeSource{ClaimName: "data", Path: path}},
		Pod:     &batchv1alpha1.Pod{Image: "debian", RunAsUser: new(int64(1000))},
		Compile: []string{"chmod +x sub/run"}, Run: []string{"sub/run", "ls -A >&2"},
	})
	a := &archives{directory: t.TempDir()}
	for name, text := range map[string]string{
		"src/sub/run": "#!/bin/sh\nwc -c <large\n", "src/large": strings.Repeat("x", 3<<20), "src/.minik8s-compile/x": "another's", "src/.minik8s-volume": "",
	} {
		file := filepath.Join(a.directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.Archive = a.archive
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "data"}}
	if err := w.Client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return w, a
}

// pod gives the pod that mounts the volume a status, as a kubelet does.
func (w *world) pod(status corev1.PodStatus) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: "n", Name: "j-slurm-source"}, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Status = status
	if err := w.Client.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func says(reason, message string) func(*batchv1alpha1.SlurmJob) bool {
	return func(job *batchv1alpha1.SlurmJob) bool {
		c := meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Submitted)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, message)
	}
}

func TestReconciler_Volume(t *testing.T) {
	t.Parallel()
	w, a := newVolumeWorld(t, "src")
	stale := t.TempDir()
	if err := os.WriteFile(filepath.Join(stale, "stale"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.wrong = append(a.wrong,
		func(context.Context, io.Writer) error { return errors.New("no tar in it") },
		// A whole archive, of what is not the volume's any more; then the connection is lost.
		func(ctx context.Context, w io.Writer) error {
			return errors.Join(tarOf(ctx, stale, w), errors.New("the connection is lost"))
		})
	w.until("a pod", says("Copying", "it starts"))
	w.pod(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}},
	}}})
	w.until("a pod's problem", says("Copying", "ErrImagePull: no such image"))
	w.pod(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"})
	w.until("a pod's end", says("CannotCopy", "DeadlineExceeded"))
	w.until("another pod", says("Copying", "it starts"))
	pod := w.pod(corev1.PodStatus{Phase: corev1.PodRunning})
	if v := pod.Spec.Volumes[0].PersistentVolumeClaim; v == nil || v.ClaimName != "data" || !v.ReadOnly || !metav1.IsControlledBy(pod, w.job()) {
		t.Errorf("the pod is %+v", pod)
	}
	w.until("a problem of reading", says("CannotCopy", "no tar in it"))
	w.until("a lost connection", says("CannotCopy", "the connection is lost"))
	job := w.until("its end", is(batchv1alpha1.Complete))
	if s := job.Status; s.Output != "3145728\n" || strings.Contains(s.Error, "stale") || !strings.Contains(s.Error, "large") {
		t.Errorf("got %+v", s)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
	var log corev1.Pod
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "j-slurm"}, &log); err != nil {
		t.Fatal(err)
	}
	if v := log.Spec.Volumes[0].ConfigMap; v == nil || v.Name != job.Status.ResultConfigMapName || !metav1.IsControlledBy(&log, job) {
		t.Errorf("the pod with the log is %+v", log)
	}
	w.until("nothing being left", cleaned)
	if left := w.node.left(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestReconciler_VolumeIsMissing(t *testing.T) {
	t.Parallel()
	w, _ := newVolumeWorld(t, "none")
	w.until("a pod", says("Copying", "it starts"))
	w.pod(corev1.PodStatus{Phase: corev1.PodRunning})
	w.until("a missing directory", says("CannotCopy", "none"))
	var claim corev1.PersistentVolumeClaim
	claim.Namespace, claim.Name = "n", "data"
	if err := w.Client.Delete(t.Context(), &claim); err != nil {
		t.Fatal(err)
	}
	w.until("a missing claim", says("SourceNotFound", `"data"`))
}

// The login node has no room: its complaint is what is said, not what that does to tar in the pod.
func TestReconciler_VolumeHasNoRoom(t *testing.T) {
	t.Parallel()
	w, _ := newVolumeWorld(t, "src")
	w.until("a pod", says("Copying", "it starts"))
	w.pod(corev1.PodStatus{Phase: corev1.PodRunning})
	if err := os.WriteFile(filepath.Join(w.node.state, "bin", "tar"), []byte("#!/bin/sh\nhead -c 10 >/dev/null; echo 'No space left' >&2; exit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.until("no room", says("CannotCopy", "unpacking it on the login node: code 2: No space left"))
}

// A job that is deleted while its volume is copied is gone at once, and so is what was copied; the same when another process copies.
func TestReconciler_VolumeDeleted(t *testing.T) {
	t.Parallel()
	w, a := newVolumeWorld(t, "src")
	begun := make(chan struct{}, 2)
	hangs := func(ctx context.Context, _ io.Writer) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	a.wrong = append(a.wrong, hangs, hangs)
	w.until("a pod", says("Copying", "it starts"))
	w.pod(corev1.PodStatus{Phase: corev1.PodRunning})
	w.until("a transfer", says("Copying", "is being copied"))
	<-begun
	killed, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Transfers.Start(killed); err != nil {
		t.Fatal(err)
	}
	w.Transfers = transfer.New(1, time.Minute) // of the next process
	w.until("a transfer", says("Copying", "is being copied"))
	<-begun
	w.end()
}

// A pod that may not be made keeps a job neither from beginning for ever unsaid, nor from its end.
func TestReconciler_PodRefused(t *testing.T) {
	t.Parallel()
	refuses := func(w *world) *events.FakeRecorder {
		recorder := events.NewFakeRecorder(100)
		w.Events = recorder
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if _, pod := o.(*corev1.Pod); pod {
					return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("exceeded quota"))
				}
				return c.Create(ctx, o, options...)
			},
		})
		return recorder
	}
	w, _ := newVolumeWorld(t, "src")
	refuses(w)
	w.until("a refusal", says("CannotCopy", "exceeded quota"))

	w = newWorld(t, batchv1alpha1.SlurmJobSpec{Pod: &batchv1alpha1.Pod{Image: "debian"}, Run: []string{"true"}})
	recorder := refuses(w)
	w.until("its end", is(batchv1alpha1.Complete))
	for {
		select {
		case e := <-recorder.Events:
			if strings.Contains(e, "CannotLog") && strings.Contains(e, "exceeded quota") {
				return
			}
		default:
			t.Fatal("nobody was told that there is no log")
		}
	}
}
