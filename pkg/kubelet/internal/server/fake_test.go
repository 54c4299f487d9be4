// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// fakeHost is a kubelet with one pod; its commands are the few words that Exec knows.
type fakeHost struct {
	mu      sync.Mutex
	logged  container.LogOptions
	logID   string
	more    chan string
	sick    error
	ends    bool // a pod does, of the same name as another
	ended   chan struct{}
	attachd container.AttachOptions
	quiet   chan struct{} // if set, Attach only receives from it when it begins and when ctx ended
}

func (h *fakeHost) Pods() []*corev1.Pod {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init"}},
			Containers:     []corev1.Container{{Name: "c", Stdin: true, StdinOnce: true}, {Name: "tty", Stdin: true, TTY: true}, {Name: "waits"}, {Name: "pulls"}},
		},
		Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "docker://init1"}}}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "c", ContainerID: "docker://c2", State: running, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "docker://c1"}}},
				{Name: "tty", ContainerID: "docker://tty1", State: running},
				{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
				{Name: "pulls", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
			},
		},
	}}
}

func (h *fakeHost) TranslateUID(uid types.UID) types.UID {
	if uid == "mirror" {
		return "u"
	}
	return uid
}

func (h *fakeHost) RunningPods(context.Context) ([]*corev1.Pod, error) { return h.Pods(), nil }

func (h *fakeHost) RunningContainer(_ context.Context, pod types.UID, name string) (string, error) {
	if pod == "u" && (name == "c" || name == "tty") {
		return name + "-id", nil
	}
	return "", fmt.Errorf("container %s: %w", name, container.ErrNotFound)
}

func (h *fakeHost) Logs(ctx context.Context, id string, o container.LogOptions, stdout, stderr io.Writer) error {
	h.mu.Lock()
	h.logID, h.logged = id, o
	h.mu.Unlock()
	if id == "init1" {
		return errors.New("gone")
	}
	_, _ = fmt.Fprint(stdout, "out\n")
	_, _ = fmt.Fprint(stderr, "err\n")
	for o.Follow {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line := <-h.more:
			_, _ = fmt.Fprint(stdout, line)
		}
	}
	return nil
}

func (h *fakeHost) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	switch o.Command[0] {
	case "cat":
		_, err := io.Copy(o.Stdout, o.Stdin)
		return 0, err
	case "both":
		_, _ = fmt.Fprint(o.Stdout, "to out")
		_, _ = fmt.Fprint(o.Stderr, "to err")
		return 0, nil
	case "exit":
		return strconv.Atoi(o.Command[1])
	case "size":
		s := <-o.Resize
		_, _ = fmt.Fprintf(o.Stdout, "%dx%d %v", s.Width, s.Height, o.Stderr == nil)
		return 0, nil
	case "sleep":
		_, _ = fmt.Fprint(o.Stdout, "sleeping")
		<-ctx.Done()
		close(h.ended)
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("%s: no such command in %s", o.Command[0], id)
}

func (h *fakeHost) Attach(ctx context.Context, id string, o container.AttachOptions) error {
	if h.quiet != nil {
		<-h.quiet
		<-ctx.Done()
		<-h.quiet
		return ctx.Err()
	}
	h.mu.Lock()
	h.attachd = o
	h.mu.Unlock()
	_, _ = fmt.Fprint(o.Stdout, id+":")
	_, err := io.Copy(o.Stdout, o.Stdin)
	return err
}

func (h *fakeHost) PortForward(_ context.Context, pod types.UID, port int32, stream io.ReadWriteCloser) error {
	if port == 1 {
		return errors.New("connection refused")
	}
	_, _ = fmt.Fprintf(stream, "%s:%d:", pod, port)
	_, err := io.Copy(stream, stream)
	return err
}

func (h *fakeHost) Stats(context.Context, bool) (*statsv1alpha1.Summary, error) {
	at := metav1.NewTime(time.UnixMilli(1700000000000))
	cpu := &statsv1alpha1.CPUStats{Time: at, UsageCoreNanoSeconds: new(uint64(2.5e9))}
	memory := &statsv1alpha1.MemoryStats{Time: at, WorkingSetBytes: new(uint64(1024))}
	swap := &statsv1alpha1.SwapStats{Time: at, SwapUsageBytes: new(uint64(10)), SwapAvailableBytes: new(uint64(30))}
	sum := &statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{NodeName: "n", CPU: cpu, Memory: memory},
		Pods: []statsv1alpha1.PodStats{{
			PodRef: statsv1alpha1.PodReference{Name: "p", Namespace: "ns"}, CPU: cpu, Memory: memory,
			Containers: []statsv1alpha1.ContainerStats{{Name: "c", StartTime: at, CPU: cpu, Memory: memory, Swap: swap}},
		}},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends {
		other := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: "other", Namespace: "ns"}, Memory: memory}
		sum.Pods = append(sum.Pods, sum.Pods[0], other)
	}
	return sum, nil
}

func (h *fakeHost) Configz() any { return map[string]string{"kind": "KubeletConfiguration"} }

func (h *fakeHost) Healthy() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick
}

// authority signs the certificates of a test.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	der := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"org"}}, ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, k)
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

type fixture struct {
	host   *fakeHost
	ca     *authority
	client *fake.Clientset
	url    string
	stop   func()
	mu     sync.Mutex
	asked  []string // verb/subresource of access reviews
	tokens int      // token reviews
}

// questions is how often the API server was asked.
func (f *fixture) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked) + f.tokens
}

// start serves with admin (all rights), reader (only nodes/pods and nodes/metrics) and token "good" of admin.
func start(t *testing.T, changes ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{host: &fakeHost{more: make(chan string), ended: make(chan struct{})}, ca: newAuthority(t), client: fake.NewSimpleClientset()}
	f.client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		f.mu.Lock()
		f.tokens++
		f.mu.Unlock()
		if r.Spec.Token == "good" {
			r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "admin"}}
		}
		return true, r, nil
	})
	f.client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.ResourceAttributes
		f.mu.Lock()
		f.asked = append(f.asked, at.Verb+"/"+at.Subresource)
		f.mu.Unlock()
		r.Status.Allowed = at.Resource == "nodes" && at.Name == "n" &&
			(r.Spec.User == "admin" || r.Spec.User == "reader" && at.Verb == "get" && (at.Subresource == "pods" || at.Subresource == "metrics"))
		return true, r, nil
	})
	cas := x509.NewCertPool()
	cas.AddCert(f.ca.cert)
	cert, key := f.ca.issue(t, "n", x509.ExtKeyUsageServerAuth)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"log/pods/a.log": "a line\n", "secret": "not a log"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cadvisor := prometheus.NewRegistry()
	cores := prometheus.NewGauge(prometheus.GaugeOpts{Name: "machine_cpu_cores"})
	cores.Set(2)
	cadvisor.MustRegister(cores)
	config := Config{
		Addr: "127.0.0.1:0", NodeName: "n", Client: f.client, Host: f.host, ClientCAs: func() (*x509.CertPool, error) { return cas, nil }, Cadvisor: cadvisor, LogDir: filepath.Join(dir, "log"),
		Certificate: func() (*tls.Certificate, error) { return &pair, nil },
	}
	for _, change := range changes {
		change(&config)
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server does not stop")
		}
	})
	t.Cleanup(f.stop)
	port, err := s.Port(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	return f
}

// as returns the configuration of a client with a certificate for user, or without any if user is "".
func (f *fixture) as(t *testing.T, user string) *rest.Config {
	t.Helper()
	c := &rest.Config{Host: f.url}
	c.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.ca.cert.Raw})
	if user != "" {
		c.CertData, c.KeyData = f.ca.issue(t, user, x509.ExtKeyUsageClientAuth)
	}
	return c
}
