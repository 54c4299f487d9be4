// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

type fixture struct {
	*Puller
	runtime *fake.Runtime
	events  *record.FakeRecorder
	clock   *testingclock.FakeClock
	pod     *corev1.Pod
	pulled  atomic.Int64 // bytes of the images of which it was told that they were pulled
	ensured string       // what was told of the last image that was wanted
}

func newFixture(secrets map[string]*corev1.Secret) *fixture {
	f := &fixture{
		runtime: fake.New(fake.Config{}), events: record.NewFakeRecorder(100), clock: testingclock.NewFakeClock(time.Unix(1e9, 0)),
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}},
	}
	f.restart("", func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		if s := secrets[namespace+"/"+name]; s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("secrets %q not found", name)
	})
	return f
}

// restart makes a new Puller, as a new kubelet would.
func (f *fixture) restart(dir string, secrets func(context.Context, string, string) (*corev1.Secret, error)) {
	p, err := New(Config{Runtime: f.runtime, Recorder: f.events, Clock: f.clock, Secrets: secrets, Dir: dir, Parallel: 1,
		Ensured: func(policy corev1.PullPolicy, present, required string) {
			f.ensured = fmt.Sprintf("%s, here %s, pulled %s", policy, present, required)
		},
		Pulled: func(_ types.UID, size int64, _ time.Duration) { f.pulled.Add(size) }})
	if err != nil {
		panic(err)
	}
	f.Puller = p
}

func (f *fixture) ensure(t *testing.T, image string, policy corev1.PullPolicy) (*container.Image, *Error) {
	t.Helper()
	img, err := f.Ensure(t.Context(), f.pod, Wanted{Image: image, Policy: policy, Of: &corev1.ObjectReference{}})
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error %v of type %T", err, err)
	}
	return img, e
}

func (f *fixture) recorded() []string {
	var out []string
	for {
		select {
		case e := <-f.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func TestEnsure(t *testing.T) {
	present := `Normal Pulled Container image "x:1" already present on machine and can be accessed by the pod`
	pulled := []string{
		`Normal Pulling Pulling image "x:1"`,
		`Normal Pulled Successfully pulled image "x:1" in 0s (0s including waiting). Image size: 1048576 bytes.`,
	}
	for _, test := range []struct {
		name, image   string
		policy        corev1.PullPolicy
		local, remote bool
		reason, says  string
		ensured       string
		events        []string
	}{
		{name: "present", ensured: "IfNotPresent, here true, pulled false", image: "x:1", policy: corev1.PullIfNotPresent, local: true, events: []string{present}},
		{name: "absent", ensured: "IfNotPresent, here false, pulled true", image: "x:1", policy: corev1.PullIfNotPresent, remote: true, events: pulled},
		{name: "always", ensured: "Always, here unknown, pulled true", image: "x:1", policy: corev1.PullAlways, local: true, remote: true, events: pulled},
		{name: "never and present", ensured: "Never, here true, pulled false", image: "x:1", policy: corev1.PullNever, local: true, events: []string{present}},
		{name: "never and absent", ensured: "Never, here false, pulled unknown", image: "x:1", policy: corev1.PullNever, reason: ReasonNeverPull,
			says:   `Container image "x:1" is not present with pull policy of Never`,
			events: []string{`Warning ErrImageNeverPull Container image "x:1" is not present with pull policy of Never`}},
		{name: "not to be had", ensured: "IfNotPresent, here false, pulled true", image: "x:1", policy: corev1.PullIfNotPresent, reason: ReasonPull,
			says:   "manifest for x:1 not found: manifest unknown: manifest unknown",
			events: []string{pulled[0], `Warning Failed Failed to pull image "x:1": manifest for x:1 not found: manifest unknown: manifest unknown`}},
		{name: "no name", ensured: "IfNotPresent, here unknown, pulled unknown", image: "X:1", policy: corev1.PullIfNotPresent, reason: ReasonInvalidName,
			says:   `Failed to apply default image tag "X:1": couldn't parse image name "X:1": invalid reference format: repository name (library/X) must be lowercase`,
			events: []string{`Warning InspectFailed Failed to apply default image tag "X:1": couldn't parse image name "X:1": invalid reference format: repository name (library/X) must be lowercase`}},
		{name: "default policy with a tag", ensured: "IfNotPresent, here true, pulled false", image: "x:1", local: true, events: []string{present}},
		{name: "default policy without", ensured: "Always, here unknown, pulled true", image: "x", local: true, reason: ReasonPull, says: "manifest for x not found: manifest unknown: manifest unknown",
			events: []string{`Normal Pulling Pulling image "x"`, `Warning Failed Failed to pull image "x": manifest for x not found: manifest unknown: manifest unknown`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(nil)
			if test.local {
				f.runtime.AddImage(test.image, nil)
			}
			if test.remote {
				f.runtime.Publish(test.image, nil)
			}
			img, err := f.ensure(t, test.image, test.policy)
			if test.reason == "" {
				if err != nil || img == nil || img.ID == "" {
					t.Fatalf("got %v, %v", img, err)
				}
			} else if err == nil || err.Reason != test.reason || err.Message != test.says {
				t.Errorf("got %+v", err)
			}
			if diff := cmp.Diff(test.events, f.recorded()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if f.ensured != test.ensured {
				t.Errorf("told that it was wanted %q, want %q", f.ensured, test.ensured)
			}
			if got := f.pulled.Load(); (got == 1048576) != slices.Equal(test.events, pulled) {
				t.Errorf("told of %d bytes", got)
			}
		})
	}
}

// registryless is a Source that has one image.
type registryless struct {
	image *container.Image
	asked []string
	fail  error
	cut   bool // the archive breaks off
}

func (s *registryless) Open(_ context.Context, name string) (io.ReadCloser, error) {
	s.asked = append(s.asked, name)
	if s.fail != nil {
		return nil, s.fail
	}
	if !slices.Contains(s.image.RepoTags, name) {
		return nil, fmt.Errorf("none: %w", fs.ErrNotExist)
	}
	data, err := json.Marshal(s.image)
	if s.cut {
		return io.NopCloser(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(io.ErrUnexpectedEOF))), err
	}
	return io.NopCloser(bytes.NewReader(data)), err
}

// What a source has is not pulled; what it has not, or is wanted as a registry has it, is.
func TestSource(t *testing.T) {
	built := &container.Image{ID: "sha256:" + strings.Repeat("b", 64), RepoTags: []string{"built:1"}, SizeBytes: 7}
	digest := "x@sha256:" + strings.Repeat("a", 64)
	for _, test := range []struct {
		name, image string
		policy      corev1.PullPolicy
		fail        error
		asked, cut  bool
		reason      string
	}{
		{name: "built", image: "built:1", policy: corev1.PullIfNotPresent, asked: true},
		{name: "built, and cut off", image: "built:1", policy: corev1.PullIfNotPresent, asked: true, cut: true, reason: ReasonPull},
		{name: "in a registry", image: "x:1", policy: corev1.PullIfNotPresent, asked: true},
		{name: "while the source is away", image: "x:1", policy: corev1.PullIfNotPresent, asked: true, fail: errors.New("away")},
		{name: "nowhere", image: "y:1", policy: corev1.PullIfNotPresent, asked: true, reason: ReasonPull},
		{name: "always", image: "built:1", policy: corev1.PullAlways, reason: ReasonPull},
		{name: "never", image: "built:1", policy: corev1.PullNever, reason: ReasonNeverPull},
		{name: "by its digest", image: digest, policy: corev1.PullIfNotPresent, reason: ReasonPull},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(nil)
			f.runtime.Publish("x:1", nil)
			source := &registryless{image: built, fail: test.fail, cut: test.cut}
			f.config.Source = source
			img, err := f.ensure(t, test.image, test.policy)
			if (err == nil) != (test.reason == "") || err != nil && err.Reason != test.reason || err == nil && img == nil {
				t.Errorf("got %v, %+v, want %q", img, err, test.reason)
			}
			if (len(source.asked) > 0) != test.asked {
				t.Errorf("asked for %v", source.asked)
			}
			if pulls := f.runtime.Calls("PullImage"); test.image == "built:1" && test.reason == "" && len(pulls) > 0 {
				t.Errorf("pulled: %v", pulls)
			}
		})
	}
}

func TestInspectError(t *testing.T) {
	f := newFixture(nil)
	f.runtime.Fail("Image", container.ErrUnavailable)
	if _, err := f.ensure(t, "x:1", corev1.PullIfNotPresent); err == nil || err.Reason != ReasonInspectError ||
		err.Message != `Failed to inspect image "x:1": container engine unavailable` {
		t.Errorf("got %+v", err)
	}
}

func TestBackOff(t *testing.T) {
	f := newFixture(nil)
	pulls := func() int { return len(f.runtime.Calls("PullImage")) }
	fail := func() {
		t.Helper()
		if _, err := f.ensure(t, "x:1", corev1.PullIfNotPresent); err == nil || err.Reason != ReasonPull {
			t.Fatalf("got %+v", err)
		}
	}
	for i, delay := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		fail()
		if pulls() != i+1 {
			t.Fatalf("pull %d was made %d times", i, pulls())
		}
		f.clock.Step(delay*time.Second - time.Millisecond)
		f.recorded()
		_, err := f.ensure(t, "x:1", corev1.PullIfNotPresent)
		if err == nil || err.Reason != ReasonBackOff ||
			err.Message != `Back-off pulling image "x:1": ErrImagePull: manifest for x:1 not found: manifest unknown: manifest unknown` {
			t.Fatalf("after failure %d: %+v", i, err)
		}
		if diff := cmp.Diff([]string{`Normal BackOff Back-off pulling image "x:1"`}, f.recorded()); diff != "" {
			t.Error(diff)
		}
		f.clock.Step(time.Millisecond)
	}
	// Another image, and another pod, are not held back.
	f.runtime.Publish("y:1", nil)
	if _, err := f.ensure(t, "y:1", corev1.PullIfNotPresent); err != nil {
		t.Errorf("another image: %+v", err)
	}
	fail()
	f.pod.UID = "other"
	fail()
	f.pod.UID = "u"
	// A success, or a long time, ends it.
	f.clock.Step(backOffMax)
	f.runtime.Publish("x:1", nil)
	if _, err := f.ensure(t, "x:1", corev1.PullAlways); err != nil {
		t.Fatalf("got %+v", err)
	}
	f.runtime.Fail("PullImage", errors.New("boom"))
	if _, err := f.ensure(t, "x:1", corev1.PullAlways); err == nil || err.Reason != ReasonPull {
		t.Fatalf("got %+v", err)
	}
	f.clock.Step(backOffInitial)
	if _, err := f.ensure(t, "x:1", corev1.PullAlways); err == nil || err.Reason != ReasonPull {
		t.Errorf("the delay did not begin anew: %+v", err)
	}
}

func secret(kind corev1.SecretType, key, text string) *corev1.Secret {
	return &corev1.Secret{Type: kind, Data: map[string][]byte{key: []byte(text)}}
}

func TestLogins(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("u:p"))
	wrong := secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"example.com/team":{"username":"u","password":"wrong"}}}`)
	right := secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"https://example.com":{"auth":"`+auth+`"}}`)
	f := newFixture(map[string]*corev1.Secret{"ns/wrong": wrong, "ns/right": right})
	f.runtime.Publish("example.com/team/x:1", &container.RegistryAuth{Username: "u", Password: "p"})
	if _, err := f.ensure(t, "example.com/team/x:1", ""); err == nil || !strings.Contains(err.Message, "pull access denied") {
		t.Fatalf("without a login: %+v", err)
	}
	f.recorded()
	f.pod.UID = "2"
	f.pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "none"}, {Name: "right"}, {Name: "wrong"}, {Name: "nil"}}
	if _, err := f.ensure(t, "example.com/team/x:1", ""); err != nil {
		t.Fatalf("with the login: %+v", err)
	}
	if got, want := f.recorded()[0], "Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (none, nil); attempting to pull the image may not succeed."; got != want {
		t.Errorf("got %q", got)
	}
	var passwords []string
	for _, c := range f.runtime.Calls("PullImage")[1:] {
		passwords = append(passwords, c.Arg.(*container.RegistryAuth).Password)
	}
	if len(passwords) != 2 {
		t.Errorf("logins tried: %v", passwords)
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		name, pattern, image string
		want                 bool
	}{
		{"host", "example.com", "example.com/x", true},
		{"other host", "example.com", "example.org/x", false},
		{"scheme and slash", "https://example.com/", "example.com/x", true},
		{"version", "https://example.com/v2/", "example.com/x", true},
		{"port", "example.com:5000", "example.com:5000/x", true},
		{"other port", "example.com", "example.com:5000/x", false},
		{"path", "example.com/a", "example.com/a/x", true},
		{"other path", "example.com/b", "example.com/a/x", false},
		{"wildcard", "*.example.com", "a.example.com/x", true},
		{"wildcard of one part", "*.example.com", "a.b.example.com/x", false},
		{"Docker Hub", "https://index.docker.io/v1/", "x", true},
		{"Docker Hub by its short name", "docker.io", "docker.io/a/x", true},
		{"not Docker Hub", "docker.io", "example.com/x", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := len(match([]entry{{pattern: withoutScheme(test.pattern)}}, test.image)) == 1; got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRate(t *testing.T) {
	f := newFixture(nil)
	p, err := New(Config{Runtime: f.runtime, Recorder: f.events, Clock: f.clock, QPS: 1, Burst: 2})
	if err != nil {
		t.Fatal(err)
	}
	f.Puller = p
	f.runtime.Publish("x:1", nil)
	pull := func(uid types.UID) *Error {
		f.pod.UID = uid
		_, err := f.ensure(t, "x:1", corev1.PullAlways)
		return err
	}
	for _, uid := range []types.UID{"1", "2"} {
		if err := pull(uid); err != nil {
			t.Fatalf("within the burst: %+v", err)
		}
	}
	f.recorded()
	if err := pull("3"); err == nil || err.Reason != ReasonPull || err.Message != "pull QPS exceeded" {
		t.Errorf("beyond it: %+v", err)
	}
	if diff := cmp.Diff([]string{`Normal Pulling Pulling image "x:1"`, `Warning Failed Failed to pull image "x:1": pull QPS exceeded`}, f.recorded()); diff != "" {
		t.Error(diff)
	}
	if err := pull("3"); err == nil || err.Reason != ReasonBackOff {
		t.Errorf("at once again: %+v", err)
	}
	f.clock.Step(time.Second)
	if err := pull("4"); err != nil {
		t.Errorf("a second later: %+v", err)
	}
	if n := len(f.runtime.Calls("PullImage")); n != 3 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// A pull that takes long says so each minute, until it is over.
func TestRemind(t *testing.T) {
	f := newFixture(nil)
	f.runtime.Publish("x:1", nil)
	release := f.runtime.Hang("PullImage", "")
	done := make(chan error)
	go func() {
		_, err := f.Ensure(t.Context(), f.pod, Wanted{Image: "x:1", Of: &corev1.ObjectReference{}})
		done <- err
	}()
	if got := <-f.events.Events; got != `Normal Pulling Pulling image "x:1"` {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"1m0s", "2m0s"} {
		for !f.clock.HasWaiters() {
			runtime.Gosched()
		}
		f.clock.Step(time.Minute)
		if got := <-f.events.Events; got != `Normal Pulling Pulling image "x:1" still in progress after `+want {
			t.Errorf("got %q", got)
		}
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-f.events.Events // pulled
	f.clock.Step(time.Minute)
	if got := f.recorded(); got != nil {
		t.Errorf("afterwards: %q", got)
	}
}

func TestParallel(t *testing.T) {
	f := newFixture(nil) // one at a time
	f.runtime.Publish("x:1", nil)
	f.runtime.Publish("y:1", nil)
	release, entered := make(chan struct{}), make(chan struct{}, 2)
	f.runtime.Before(func(c fake.Call) error {
		if c.Op == "PullImage" {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	done := make(chan error)
	go func() {
		_, err := f.Ensure(t.Context(), f.pod, Wanted{Image: "x:1", Of: &corev1.ObjectReference{}})
		done <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := f.Ensure(ctx, f.pod, Wanted{Image: "y:1", Of: &corev1.ObjectReference{}})
		done <- err
	}()
	cancel() // the second only waits, and can be called off
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(entered) != 0 {
		t.Error("two pulls ran at a time")
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}
