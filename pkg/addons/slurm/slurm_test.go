// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	batchv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/batch/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/slurm/internal/transfer"
)

// world is a SlurmJob with the login node that it names.
type world struct {
	*Reconciler

	t    *testing.T
	node *loginNode
	key  client.ObjectKey
}

func newWorld(t *testing.T, spec batchv1alpha1.SlurmJobSpec, change ...func(*corev1.Secret)) *world {
	t.Helper()
	node := newLoginNode(t)
	spec.Login = batchv1alpha1.Login{Host: node.host, Port: int32(node.port), User: "u", SecretName: "key"}
	spec.CompileSeconds, spec.PollSeconds = 20, 1
	job := &batchv1alpha1.SlurmJob{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "uid", Generation: 1}, Spec: spec}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "key"},
		Data:       map[string][]byte{corev1.SSHAuthPrivateKey: node.privateKey, "known_hosts": node.knownHosts},
	}
	for _, c := range change {
		c(secret)
	}
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "source"}, Data: map[string]string{"in.txt": "seven\n"}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, batchv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(job).WithObjects(job, secret, source).Build()
	return &world{
		Reconciler: &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(100), Now: time.Now, Transfers: transfer.New(1, time.Minute)},
		t:          t, node: node, key: client.ObjectKeyFromObject(job),
	}
}

func (w *world) job() *batchv1alpha1.SlurmJob {
	w.t.Helper()
	job := &batchv1alpha1.SlurmJob{}
	if err := w.Client.Get(w.t.Context(), w.key, job); err != nil {
		w.t.Fatal(err)
	}
	return job
}

// until reconciles until the job is as wanted.
func (w *world) until(what string, ok func(*batchv1alpha1.SlurmJob) bool) *batchv1alpha1.SlurmJob {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for {
		result, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
		if err != nil {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
		job := w.job()
		if ok(job) {
			return job
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("waiting for %s: %+v", what, job.Status)
		case <-time.After(min(result.RequeueAfter, 50*time.Millisecond)):
		}
	}
}

// end deletes the job, of which nothing is left after one pass.
func (w *world) end() {
	w.t.Helper()
	job := w.job()
	if err := w.Client.Delete(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.Get(w.t.Context(), w.key, job); !apierrors.IsNotFound(err) {
		w.t.Errorf("it is still there: %v, %+v", err, job)
	}
	if left := w.node.left(w.t); left != "" {
		w.t.Errorf("left: %s", left)
	}
}

func is(kind string) func(*batchv1alpha1.SlurmJob) bool {
	return func(job *batchv1alpha1.SlurmJob) bool { return meta.IsStatusConditionTrue(job.Status.Conditions, kind) }
}

func because(kind, reason string) func(*batchv1alpha1.SlurmJob) bool {
	return func(job *batchv1alpha1.SlurmJob) bool {
		c := meta.FindStatusCondition(job.Status.Conditions, kind)
		return c != nil && c.Reason == reason
	}
}

func cleaned(job *batchv1alpha1.SlurmJob) bool { return job.Status.Directory == "" && finished(job) }

func TestReconciler_Completes(t *testing.T) {
	t.Parallel()
	for _, database := range []bool{true, false} {
		w := newWorld(t, batchv1alpha1.SlurmJobSpec{
			Source: &batchv1alpha1.Source{ConfigMapName: "source"}, Compile: []string{"tr a-z A-Z <in.txt >out.txt", "echo compiled"},
			Run: []string{"cat out.txt", "echo careful >&2"},
		})
		if !database {
			w.node.want(t, "nodb", true)
		}
		job := w.until("its end", is(batchv1alpha1.Complete))
		s := job.Status
		if s.Output != "SEVEN\n" || s.Error != "careful\n" || s.CompileOutput != "compiled\n" || s.State != "COMPLETED" || s.JobID != "100" || s.CompletionTime == nil {
			t.Errorf("got %+v", s)
		}
		var result corev1.ConfigMap
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: s.ResultConfigMapName}, &result); err != nil {
			t.Fatal(err)
		}
		if result.Data["output"] != "SEVEN\n" || !metav1.IsControlledBy(&result, job) {
			t.Errorf("result %+v", result)
		}
		w.until("nothing being left", cleaned)
		if left := w.node.left(t); left != "" {
			t.Errorf("left: %s", left)
		}
	}
}

func TestReconciler_Fails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reason, message string
		spec                  batchv1alpha1.SlurmJobSpec
	}{
		{"compile", "CompileFailed", "code 3", batchv1alpha1.SlurmJobSpec{Compile: []string{"echo broken", "exit 3"}, Run: []string{"true"}}},
		{"refused", "Rejected", "invalid partition", batchv1alpha1.SlurmJobSpec{Partition: "none", Run: []string{"true"}}},
		{"run", "Ended", "FAILED", batchv1alpha1.SlurmJobSpec{Run: []string{"false", "echo no"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.spec)
			job := w.until("its failure", is(batchv1alpha1.Failed))
			c := meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Failed)
			if c.Reason != test.reason || !strings.Contains(c.Message, test.message) || strings.Contains(job.Status.Output, "no") {
				t.Errorf("got %+v", job.Status)
			}
			w.until("nothing being left", cleaned)
			if left := w.node.left(t); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// What has no answer is done once: the login node is started anew while sbatch runs, and the job is found, also if it has ended since.
func TestReconciler_SubmitsOnce(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}})
		w.node.want(t, "lost", true)
		w.until("no answer", because(batchv1alpha1.Submitted, "Submitting"))
		if forgotten {
			w.node.want(t, "forgotten", true)
		}
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(w.node.submission(t), long, long); err != nil {
			t.Fatal(err)
		}
		w.until("its end", is(batchv1alpha1.Complete))
		if n := w.node.jobs(t); n != 1 {
			t.Errorf("Slurm has got %d jobs", n)
		}
	}
}

// passBriefly has a pass end while sbatch takes its time.
func (w *world) passBriefly() {
	w.t.Helper()
	w.node.want(w.t, "slow", true)
	w.until("its directory", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.Directory != "" })
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil {
		w.t.Fatal(err)
	}
	if job := w.job(); job.Status.JobID != "" {
		w.t.Fatalf("it was submitted at once: %+v", job.Status)
	}
}

// An sbatch that takes longer than a look is waited for: another one beside it would submit the job twice.
func TestReconciler_SubmitsOnceSlowly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}})
	w.passBriefly()
	w.until("its end", is(batchv1alpha1.Complete))
	if n := w.node.jobs(t); n != 1 {
		t.Errorf("Slurm has got %d jobs", n)
	}
}

// A job that is deleted while sbatch takes its time would run without anybody who knows of it.
func TestReconciler_DeletesAfterSubmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"sleep 5"}})
	w.passBriefly()
	if err := w.Client.Delete(t.Context(), w.job()); err != nil {
		t.Fatal(err)
	}
	w.until("the submission being waited for", because(batchv1alpha1.Reachable, "CannotCancel"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil {
			return false, err
		}
		err := w.Client.Get(ctx, w.key, &batchv1alpha1.SlurmJob{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(filepath.Join(w.node.state, "jobs", "100", "state"))
	if err != nil || !strings.HasPrefix(string(state), "CANCELLED") {
		t.Errorf("the job is %q, %v", state, err)
	}
}

// While a job runs the end of what it has written is in the status.
func TestReconciler_ShowsProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{
		"head -c 100000 /dev/zero | tr '\\0' x", "echo begun; echo careful >&2", "while [ -d $STATE ] && [ ! -f $STATE/go ]; do sleep 0.1; done", "echo ended",
	}})
	job := w.until("its output", func(job *batchv1alpha1.SlurmJob) bool {
		return strings.HasSuffix(job.Status.Output, "begun\n") && job.Status.Error == "careful\n"
	})
	if job.Status.State != "RUNNING" || len(job.Status.Output) > shown {
		t.Errorf("it is %s, and has %d bytes of output", job.Status.State, len(job.Status.Output))
	}
	w.node.want(t, "go", true)
	if job = w.until("its end", is(batchv1alpha1.Complete)); !strings.HasSuffix(job.Status.Output, "begun\nended\n") || len(job.Status.Output) != kept {
		t.Errorf("at its end it has %d bytes of output", len(job.Status.Output))
	}
}

// That one of sacct and scontrol has forgotten a job and the other is away does not mean that it is lost.
func TestReconciler_WaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"sleep 1", "echo out"}})
	w.until("its run", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.State == "RUNNING" })
	w.node.want(t, "dbaway", true)
	w.node.want(t, "forgotten", true)
	w.until("the database being away", because(batchv1alpha1.Reachable, "SlurmAway"))
	w.node.want(t, "dbaway", false)
	if job := w.until("its end", is(batchv1alpha1.Complete)); job.Status.Output != "out\n" {
		t.Errorf("got %+v", job.Status)
	}
}

// What a job has written that Slurm has forgotten is brought back before it is removed.
func TestReconciler_KeepsWhatALostJobHasWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"echo out", "sleep 3"}})
	w.node.want(t, "nodb", true)
	w.until("its output", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.Output != "" })
	w.node.want(t, "forgotten", true)
	job := w.until("being lost", because(batchv1alpha1.Failed, "JobLost"))
	if job.Status.Output != "out\n" || job.Status.ResultConfigMapName == "" {
		t.Errorf("got %+v", job.Status)
	}
	w.until("nothing being left", cleaned)
}

func TestMoved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*batchv1alpha1.SlurmJob)
		want   bool
	}{
		{"nothing", func(*batchv1alpha1.SlurmJob) {}, false},
		{"another port in an error", func(job *batchv1alpha1.SlurmJob) {
			set(job, batchv1alpha1.Reachable, false, "Unreachable", "from port 2")
		}, false},
		{"output", func(job *batchv1alpha1.SlurmJob) { job.Status.Output = "more" }, false},
		{"a condition", func(job *batchv1alpha1.SlurmJob) { set(job, batchv1alpha1.Reachable, true, "LoggedIn", "in") }, true},
		{"a step", func(job *batchv1alpha1.SlurmJob) { job.Status.JobID = "1" }, true},
		{"the annotation", func(job *batchv1alpha1.SlurmJob) {
			job.Annotations = map[string]string{batchv1alpha1.AbandonAnnotation: "true"}
		}, true},
		{"its deletion", func(job *batchv1alpha1.SlurmJob) { job.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := &batchv1alpha1.SlurmJob{}
			set(before, batchv1alpha1.Reachable, false, "Unreachable", "from port 1")
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			test.change(after)
			if got := moved(before, after); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestReconciler_WaitsForSlurm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}})
	w.node.want(t, "away", true)
	w.until("Slurm being away", because(batchv1alpha1.Submitted, "SlurmAway"))
	w.node.want(t, "away", false)
	w.until("its end", is(batchv1alpha1.Complete))
}

func TestReconciler_SaysWhoIsRefused(t *testing.T) {
	t.Parallel()
	other, private := newKey(t)
	for name, change := range map[string]func(*corev1.Secret){
		"let":                func(s *corev1.Secret) { s.Data[corev1.SSHAuthPrivateKey] = private },
		"private key cannot": func(s *corev1.Secret) { s.Data[corev1.SSHAuthPrivateKey] = []byte("no key") },
		"has no known_hosts": func(s *corev1.Secret) { delete(s.Data, "known_hosts") },
		"there is no Secret": func(s *corev1.Secret) { s.Name = "other" },
		"is not in known_hosts": func(s *corev1.Secret) {
			s.Data["known_hosts"] = []byte("h " + string(ssh.MarshalAuthorizedKey(other.PublicKey())))
		},
		"known_hosts cannot": func(s *corev1.Secret) { s.Data["known_hosts"] = []byte("nothing of the kind") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}}, change)
			job := w.until("being refused", because(batchv1alpha1.Reachable, "Refused"))
			if c := meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Reachable); !strings.Contains(c.Message, name) {
				t.Errorf("it says %q", c.Message)
			}
		})
	}
}

// A login node that is a Service of the cluster is found without cluster DNS, and known by its name.
func TestReconciler_Service(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "slurm"}, Spec: corev1.ServiceSpec{ClusterIP: w.node.host}}
	var secret corev1.Secret
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "key"}, &secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["known_hosts"] = []byte(strings.ReplaceAll(string(w.node.knownHosts), w.node.host, "slurm.n.svc"))
	job := w.job()
	job.Spec.Login.Host = "slurm.n.svc"
	if err := errors.Join(w.Client.Create(t.Context(), service), w.Client.Update(t.Context(), &secret), w.Client.Update(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	w.until("its end", is(batchv1alpha1.Complete))
}

func TestReconciler_Deletes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		spec batchv1alpha1.SlurmJobSpec
		when func(*batchv1alpha1.SlurmJob) bool
	}{
		{"while it runs", batchv1alpha1.SlurmJobSpec{Run: []string{"sleep 1000"}}, func(job *batchv1alpha1.SlurmJob) bool { return job.Status.State == "RUNNING" }},
		{"while it is compiled", batchv1alpha1.SlurmJobSpec{Compile: []string{"sleep 1000"}, Run: []string{"true"}}, because(batchv1alpha1.Submitted, "Compiling")},
		{"at its end", batchv1alpha1.SlurmJobSpec{Run: []string{"true"}}, is(batchv1alpha1.Complete)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.spec)
			w.until("its time", test.when)
			w.end()
		})
	}
}

// A Secret that goes first keeps a job that is deleted, but not in a namespace that ends: nobody can make it there again. There the job is
// cancelled by what is known of before, or given up.
func TestReconciler_NamespaceEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// forbidden: the Secret is there, and may not be read. restarted: nobody knows any more how to get in. away: the login node has gone, too.
		forbidden, restarted, away bool
	}{
		{"no Secret", false, false, false}, {"no right", true, false, false}, {"no Secret and another process", false, true, false},
		{"no right and another process", true, true, false}, {"no Secret and no login node", false, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"sleep 2"}})
			recorder := events.NewFakeRecorder(100)
			w.Events = recorder
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"example.org/test"}}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "key"}}
			if err := w.Client.Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			job := w.until("its time", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.JobID != "" })
			if tc.forbidden {
				w.Live = forbids(w.Client)
			} else if err := w.Client.Delete(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			if err := w.Client.Delete(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			w.until("not being cancelled", because(batchv1alpha1.Reachable, "CannotCancel"))
			if err := w.Client.Delete(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			if tc.restarted {
				w.logins.forget(w.key)
			}
			if tc.away {
				_ = w.node.listener.Close()
			}
			if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
				t.Fatal(err)
			}
			if err := w.Client.Get(t.Context(), w.key, job); !apierrors.IsNotFound(err) {
				t.Errorf("it is still there: %v", err)
			}
			said := ""
			for len(recorder.Events) > 0 {
				said = <-recorder.Events
			}
			if given := strings.Contains(said, "SlurmJobAbandoned") && strings.Contains(said, "job 100 may run on"); given != (tc.restarted || tc.away) {
				t.Errorf("the last event is %q", said)
			}
			if left := w.node.left(t); (left == "") == (tc.restarted || tc.away) {
				t.Errorf("left: %q", left)
			}
			if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
				t.Fatal(err)
			}
			if n := len(w.logins.known); n != 0 {
				t.Errorf("%d ways are kept in mind", n)
			}
		})
	}
}

// forbids reads all but Secrets.
func forbids(c client.Client) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("not yours"))
			}
			return c.Get(ctx, key, o, options...)
		},
	})
}

// A job whose Secret may not be read begins when it may be, and says until then how to allow it.
func TestReconciler_WaitsForItsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"true"}})
	w.Live = forbids(w.Client)
	job := w.until("having no right", because(batchv1alpha1.Reachable, "SecretForbidden"))
	if c := meta.FindStatusCondition(job.Status.Conditions, batchv1alpha1.Reachable); !strings.Contains(c.Message, "--clusterrole="+SecretsRole) {
		t.Errorf("it says %q", c.Message)
	}
	w.Live = w.Client
	w.until("its end", is(batchv1alpha1.Complete))
}

// A job whose directory somebody has removed ends as it did, without what it has written.
func TestReconciler_EndsWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ run, kind string }{{"true", batchv1alpha1.Complete}, {"false", batchv1alpha1.Failed}} {
		w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"while [ -d $STATE ] && [ ! -f $STATE/go ]; do sleep 0.1; done", test.run}})
		job := w.until("its run", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.State == "RUNNING" })
		if err := os.RemoveAll(filepath.Join(w.node.home, job.Status.Directory)); err != nil {
			t.Fatal(err)
		}
		w.node.want(t, "go", true)
		job = w.until("no directory", because(batchv1alpha1.Complete, "CannotFetch"))
		if !because(batchv1alpha1.Reachable, "CannotFetch")(job) || finished(job) {
			t.Errorf("got %+v", job.Status)
		}
		w.Now = func() time.Time { return time.Now().Add(directoryWait + time.Minute) }
		job = w.until("its end", is(test.kind))
		if c := meta.FindStatusCondition(job.Status.Conditions, test.kind); !strings.Contains(c.Message, "could not be brought back") {
			t.Errorf("it says %q", c.Message)
		}
		w.until("nothing being left", cleaned)
	}
}

// A long name is no reason for names that nobody takes, or that two jobs have.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"j", strings.Repeat("a", 241), strings.Repeat("a", 202) + "." + strings.Repeat("b", 50)} {
		job := &batchv1alpha1.SlurmJob{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 63), Name: name, UID: types.UID(strings.Repeat("1", 36))}}
		twin := job.DeepCopy()
		twin.Name, twin.UID = name+"c", types.UID(strings.Repeat("2", 36))
		for _, suffix := range []string{"-slurm", "-slurm-source", "-slurm-result"} {
			if got := named(job, suffix); len(validation.IsDNS1123Subdomain(got)) > 0 || !strings.HasSuffix(got, suffix) || got == named(twin, suffix) {
				t.Errorf("%q is no name of its own", got)
			}
		}
		job.Status.Directory = directory(job)
		if part := path.Base(host{job: job}.parts() + "12345678"); len(part) > 255 || directory(job) == directory(twin) {
			t.Errorf("%q is no name of a directory of its own", part)
		}
	}
}

// A login node that is gone keeps the object, until its user gives it up.
func TestReconciler_Abandons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batchv1alpha1.SlurmJobSpec{Run: []string{"sleep 2"}})
	job := w.until("its time", func(job *batchv1alpha1.SlurmJob) bool { return job.Status.JobID != "" })
	_ = w.node.listener.Close()
	if err := w.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	job = w.until("not being cancelled", because(batchv1alpha1.Reachable, "CannotCancel"))
	job.Annotations = map[string]string{batchv1alpha1.AbandonAnnotation: "true"}
	if err := w.Client.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), w.key, job); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
