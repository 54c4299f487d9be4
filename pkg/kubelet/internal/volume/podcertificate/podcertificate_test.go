// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podcertificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func TestGenerate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"} {
		private, request, err := generate(kind)
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(private)
		if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
			t.Fatalf("%s: %s", kind, private)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var is string
		switch k := key.(type) {
		case *rsa.PrivateKey:
			is = fmt.Sprintf("RSA%d", k.N.BitLen())
		case *ecdsa.PrivateKey:
			is = "ECDSA" + strings.ReplaceAll(k.Curve.Params().Name, "-", "")
		case ed25519.PrivateKey:
			is = "ED25519"
		}
		if is != kind {
			t.Errorf("%s: got %s", kind, is)
		}
		r, err := x509.ParseCertificateRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CheckSignature(); err != nil || len(r.Subject.Names) > 0 {
			t.Errorf("%s: request of %v: %v", kind, r.Subject, err)
		}
	}
	if _, _, err := generate("DSA"); err == nil {
		t.Error("a kind that there is not")
	}
}

// world is a Manager with an API server and a signer that the test plays, in a bubble of time.
type world struct {
	*Manager
	t       *testing.T
	client  *fake.Clientset
	changed chan types.UID
	events  *record.FakeRecorder
	pod     *corev1.Pod
	// refuse is what creating a request answers, nil for success.
	refuse error
	made   []string
	// cutOff is what a look for the ServiceAccount answers, nil for success.
	cutOff error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, client: fake.NewClientset(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default", UID: "account"}}),
		changed: make(chan types.UID, 100), events: record.NewFakeRecorder(100),
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}},
	}
	w.client.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return w.cutOff != nil, nil, w.cutOff
	})
	w.client.PrependReactor("create", "podcertificaterequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if w.refuse != nil {
			return true, nil, w.refuse
		}
		r := a.(clienttesting.CreateAction).GetObject().(*certificatesv1.PodCertificateRequest)
		r.Name = fmt.Sprintf("%s%d", r.GenerateName, len(w.made))
		w.made = append(w.made, r.Name)
		return false, nil, nil
	})
	var err error
	w.Manager, err = New(Config{
		Client: w.client, Clock: clock.RealClock{}, NodeName: "n", Changed: func(uid types.UID) { w.changed <- uid }, Recorder: w.events,
		Node: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var projection = &corev1.PodCertificateProjection{
	SignerName: "e.com/s", KeyType: "ED25519", MaxExpirationSeconds: new(int32(3600)), UserAnnotations: map[string]string{"e.com/a": "b"},
}

func (w *world) get() (Credentials, error) {
	return w.Get(w.t.Context(), w.pod, "v", 0, projection)
}

// pending checks that there is nothing yet.
func (w *world) pending() {
	w.t.Helper()
	if c, err := w.get(); !errors.Is(err, plugin.ErrPending) {
		w.t.Fatalf("%v, %v", c, err)
	}
}

// decide writes the status of a request, as its signer does, and waits until the Manager tells of it.
func (w *world) decide(name string, s certificatesv1.PodCertificateRequestStatus) {
	w.t.Helper()
	requests := w.client.CertificatesV1().PodCertificateRequests("ns")
	r, err := requests.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	r.Status = s
	if _, err := requests.UpdateStatus(w.t.Context(), r, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	for len(w.changed) > 0 {
		if uid := <-w.changed; uid != "u" {
			w.t.Errorf("%s is told", uid)
		}
	}
}

func status(kind, chain string) certificatesv1.PodCertificateRequestStatus {
	now := time.Now()
	return certificatesv1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Why", Message: "so"}},
		CertificateChain: chain, NotBefore: &metav1.Time{Time: now.Add(-2 * time.Minute)}, BeginRefreshAt: &metav1.Time{Time: now.Add(30 * time.Minute)}, NotAfter: &metav1.Time{Time: now.Add(time.Hour)},
	}
}

func certificate(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

// run plays a story in a bubble of time.
func run(t *testing.T, story func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Stop()
		story(w)
	})
}

func TestGet_IssuedAndRenewed(t *testing.T) {
	run(t, func(w *world) {
		w.pending()
		w.pending()
		if len(w.made) != 1 {
			w.t.Fatalf("made %v", w.made)
		}
		r, err := w.client.CertificatesV1().PodCertificateRequests("ns").Get(w.t.Context(), "req-0", metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		want := certificatesv1.PodCertificateRequestSpec{
			SignerName: "e.com/s", PodName: "p", PodUID: "u", ServiceAccountName: "default", ServiceAccountUID: "account", NodeName: "n", NodeUID: "node",
			MaxExpirationSeconds: new(int32(3600)), StubPKCS10Request: r.Spec.StubPKCS10Request, UnverifiedUserAnnotations: map[string]string{"e.com/a": "b"},
		}
		if diff := cmp.Diff(want, r.Spec); diff != "" {
			w.t.Error(diff)
		}
		w.decide("req-0", status("Issued", "text\n"+certificate("leaf")+certificate("ca")))
		first, err := w.get()
		if err != nil || string(first.Chain) != certificate("leaf")+certificate("ca") || !strings.HasPrefix(string(first.Key), "-----BEGIN PRIVATE KEY-----") {
			w.t.Fatalf("%s, %v", first, err)
		}
		<-time.After(29 * time.Minute)
		if _, err := w.get(); err != nil || len(w.made) != 1 {
			w.t.Errorf("renewed before the time: %v, %v", w.made, err)
		}
		<-time.After(spread + 2*time.Minute)
		for range 2 {
			if c, err := w.get(); err != nil || !cmp.Equal(c, first) || len(w.made) != 2 {
				w.t.Errorf("while it is renewed: %s, %v, %v", c, w.made, err)
			}
		}
		w.decide("req-1", status("Issued", certificate("new")))
		if c, err := w.get(); err != nil || string(c.Chain) != certificate("new") || string(c.Key) == string(first.Key) {
			w.t.Errorf("after it: %s, %v", c, err)
		}
		if len(w.events.Events) > 0 {
			w.t.Errorf("event %s", <-w.events.Events)
		}
	})
}

// setBack is a clock on the wall that was set.
type setBack struct {
	clock.Clock
	by time.Duration
}

func (s *setBack) Now() time.Time { return s.Clock.Now().Round(0).Add(-s.by) }

// A certificate that is one of the future since the clock was set back is renewed, and one that is valid already is not; that of a signer
// whose clock is ahead is taken.
func TestGet_ClockSetBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		by     time.Duration
		before bool // the certificate comes
		made   int
	}{
		{"an hour", time.Hour, false, 2}, {"a minute", time.Minute, false, 1}, {"before it came", time.Hour, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(w *world) {
				wall := &setBack{Clock: clock.RealClock{}}
				w.config.Clock = wall
				w.pending()
				if tc.before {
					wall.by = tc.by
				}
				w.decide("req-0", status("Issued", certificate("leaf")))
				first, err := w.get()
				if err != nil {
					w.t.Fatal(err)
				}
				wall.by = tc.by
				for range 2 {
					if c, err := w.get(); err != nil || !cmp.Equal(c, first) || len(w.made) != tc.made {
						w.t.Errorf("%s, %v, made %v", c, err, w.made)
					}
				}
			})
		})
	}
}

func TestStates(t *testing.T) {
	run(t, func(w *world) {
		want := func(state string) {
			w.t.Helper()
			if diff := cmp.Diff(map[[2]string]int{{"e.com/s", state}: 1}, w.States()); diff != "" {
				w.t.Errorf("(-want +got):\n%s", diff)
			}
		}
		w.pending()
		want("not_yet_issued")
		w.decide("req-0", status("Issued", certificate("leaf")))
		if _, err := w.get(); err != nil {
			w.t.Fatal(err)
		}
		want("fresh")
		w.refuse = apierrors.NewServiceUnavailable("away")
		<-time.After(30*time.Minute + spread + overdue + time.Second)
		want("overdue_for_refresh")
		<-time.After(time.Hour)
		want("expired")
		w.refuse = nil
		if _, err := w.get(); err != nil {
			w.t.Fatal(err)
		}
		want("expired")
		w.decide("req-1", status("Denied", ""))
		if _, err := w.get(); err == nil {
			w.t.Error("what was denied is there")
		}
		want("denied")
		w.Forget("u")
		if got := w.States(); len(got) > 0 {
			w.t.Errorf("of what is forgotten: %v", got)
		}
	})
}

func TestGet_Refused(t *testing.T) {
	for kind, want := range map[string]string{
		"Denied": `PodCertificateRequest was denied, reason="Why", message="so"`, "Failed": `PodCertificateRequest failed, reason="Why", message="so"`,
	} {
		t.Run(kind, func(t *testing.T) {
			run(t, func(w *world) {
				w.pending()
				w.decide("req-0", status(kind, ""))
				for range 2 {
					if c, err := w.get(); err == nil || err.Error() != want || errors.Is(err, plugin.ErrPending) {
						w.t.Errorf("%s, %v", c, err)
					}
				}
				if len(w.made) != 1 || len(w.events.Events) != 1 {
					w.t.Errorf("made %v, wrote %d events", w.made, len(w.events.Events))
				} else if e := <-w.events.Events; !strings.HasPrefix(e, "Warning "+kind+" PodCertificateRequest ns/req-0 ") {
					w.t.Error(e)
				}
			})
		})
	}
}

// A request that somebody deletes is made again, once it can be told from one that is too new to be seen.
func TestGet_RequestDeleted(t *testing.T) {
	run(t, func(w *world) {
		w.pending()
		if err := w.client.CertificatesV1().PodCertificateRequests("ns").Delete(w.t.Context(), "req-0", metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		w.pending()
		if len(w.made) != 1 {
			w.t.Errorf("at once: %v", w.made)
		}
		<-time.After(lag + time.Second)
		w.pending()
		if len(w.made) != 2 {
			w.t.Errorf("later: %v", w.made)
		}
	})
}

// A certificate that cannot be renewed stays, and that it is old is told once.
func TestGet_RenewingFails(t *testing.T) {
	run(t, func(w *world) {
		w.pending()
		w.decide("req-0", status("Issued", certificate("leaf")))
		if _, err := w.get(); err != nil {
			w.t.Fatal(err)
		}
		w.refuse = apierrors.NewServiceUnavailable("away")
		for range 90 {
			<-time.After(time.Minute)
			if c, err := w.get(); err != nil || string(c.Chain) != certificate("leaf") {
				w.t.Fatalf("%s, %v", c, err)
			}
		}
		var got []string
		for len(w.events.Events) > 0 {
			got = append(got, <-w.events.Events)
		}
		want := []string{"Warning CertificateOverdueForRefresh PodCertificate refresh overdue", "Warning CertificateExpired PodCertificate expired"}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Error(diff)
		}
	})
}

func TestGet_NotDecided(t *testing.T) {
	run(t, func(w *world) {
		w.refuse = apierrors.NewTooManyRequests("later", 1)
		if _, err := w.get(); !errors.Is(err, plugin.ErrUnavailable) {
			w.t.Errorf("an API server that is busy: %v", err)
		}
		w.refuse = apierrors.NewForbidden(certificatesv1.Resource("podcertificaterequests"), "", errors.New("no"))
		if _, err := w.get(); err == nil || errors.Is(err, plugin.ErrUnavailable) || errors.Is(err, plugin.ErrPending) {
			w.t.Errorf("one that refuses: %v", err)
		}
		w.refuse = nil
		w.config.Node = func() *corev1.Node { return nil }
		if _, err := w.get(); !errors.Is(err, plugin.ErrUnavailable) {
			w.t.Errorf("a node that is not known: %v", err)
		}
		if len(w.made) > 0 {
			w.t.Errorf("made %v", w.made)
		}
	})
}

// An API server that hangs holds a pod for some seconds, and what is forgotten is asked for anew.
func TestGet_HangsAndForgets(t *testing.T) {
	run(t, func(w *world) {
		w.pending()
		w.Forget("u")
		if len(w.states) > 0 {
			w.t.Errorf("%v is left", w.states)
		}
		w.pending()
		if len(w.made) != 2 {
			w.t.Errorf("made %v", w.made)
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		w.cutOff = ctx.Err()
		if _, err := w.Get(ctx, w.pod, "other", 1, projection); !errors.Is(err, plugin.ErrUnavailable) {
			w.t.Errorf("a call that was cut off: %v", err)
		}
	})
}
