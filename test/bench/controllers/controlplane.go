// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/pki"
)

// identity is what all clusters share: the CA, the pairs of server and administrator, the key of tokens.
type identity struct{ dir string }

func newIdentity(dir string) (*identity, error) {
	ca, err := pki.NewCA("bench")
	if err != nil {
		return nil, err
	}
	serving, err := ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	admin, err := ca.Issue(pki.Request{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	token, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	signer, err := pki.ParseKey(token)
	if err != nil {
		return nil, err
	}
	verifier, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"ca.crt": ca.Cert, "ca.key": ca.Key, "apiserver.crt": serving.Cert, "apiserver.key": serving.Key, "admin.crt": admin.Cert, "admin.key": admin.Key,
		"sa.key": token, "sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: verifier}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return &identity{dir: dir}, nil
}

func (i *identity) file(name string) string { return filepath.Join(i.dir, name) }

// controlPlane is etcd, an API server and a manager that run.
type controlPlane struct {
	client kubernetes.Interface

	dir                      string
	etcd, apiserver, manager *process
}

// kubeconfig is filled in with a URL and the names of three files.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: bench
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
clusters: [{name: bench, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: bench, user: {client-certificate: %q, client-key: %q}}]
`

// start runs etcd, with its data synced to the disk, the API server and a manager, and returns when that one works. The name is
// that of the case.
func start(ctx context.Context, o options, id *identity, w who, name string) (_ *controlPlane, err error) {
	k := &controlPlane{}
	if k.dir, err = os.MkdirTemp(id.dir, w.String()+"-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.stop())
		}
	}()
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if k.etcd, err = execute(k.dir, o.minik8s, "etcd", "--data-dir="+filepath.Join(k.dir, "etcd"), "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return nil, err
	}
	if err := k.etcd.until(ctx, func(ctx context.Context) error {
		answer, err := http.Get(client + "/health")
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}); err != nil {
		return nil, err
	}
	if k.apiserver, err = execute(k.dir, o.apiserver, "kube-apiserver",
		"--advertise-address=192.0.2.10", // only a value in objects: nothing is sent there
		"--service-cluster-ip-range=10.0.0.0/16", "--client-ca-file="+id.file("ca.crt"),
		"--tls-cert-file="+id.file("apiserver.crt"), "--tls-private-key-file="+id.file("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+id.file("sa.pub"), "--service-account-signing-key-file="+id.file("sa.key"),
		"--authorization-mode=Node,RBAC", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		"--etcd-servers="+client, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]), "--cert-dir="+k.dir,
	); err != nil {
		return nil, err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	config := filepath.Join(k.dir, "kubeconfig")
	content := fmt.Sprintf(kubeconfig, server, id.file("ca.crt"), id.file("admin.crt"), id.file("admin.key"))
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	if k.client, err = kubernetes.NewForConfig(&rest.Config{
		Host: server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: id.file("ca.crt"), CertFile: id.file("admin.crt"), KeyFile: id.file("admin.key")},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json"},
	}); err != nil {
		return nil, err
	}
	if err := k.apiserver.until(ctx, func(ctx context.Context) error {
		return k.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return nil, err
	}
	if k.manager, err = startManager(o, id, w, name, k.dir, config, ports[3]); err != nil {
		return nil, err
	}
	return k, k.manager.until(ctx, func(ctx context.Context) error {
		_, err := k.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// startManager starts upstream's manager, without a limit on its requests as ours has none, or ours.
func startManager(o options, id *identity, w who, name, dir, config string, port int) (*process, error) {
	if w == ours {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args := []string{managerCommand, "--kubeconfig=" + config, "--root-ca-file=" + id.file("ca.crt"), "--root-ca-key-file=" + id.file("ca.key")}
		if o.profiles != "" {
			args = append(args, "--cpuprofile="+filepath.Join(o.profiles, name+".pprof"))
		}
		return execute(dir, self, "controllers", args...)
	}
	return execute(dir, o.upstream, "kube-controller-manager", "--kubeconfig="+config, "--root-ca-file="+id.file("ca.crt"),
		"--service-account-private-key-file="+id.file("sa.key"), "--use-service-account-credentials=true", "--leader-elect=false",
		"--kube-api-qps=100000", "--kube-api-burst=100000", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+dir)
}

// stop ends the programs and removes their data.
func (k *controlPlane) stop() error {
	for _, p := range []*process{k.manager, k.apiserver, k.etcd} {
		p.stop()
	}
	return os.RemoveAll(k.dir)
}

// process is a program that was started.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
}

func execute(dir, program, name string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Args[0] = name // a program of several names looks at this one
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ends is of no interest: whoever needs it sees that it does not answer
		close(p.done)
	}()
	return p, nil
}

func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(20 * time.Second)
	defer grace.Stop()
	select {
	case <-p.done:
	case <-grace.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// until asks every twenty milliseconds until check returns nil or the program ends.
func (p *process) until(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			data, err := os.ReadFile(p.log)
			return false, errors.Join(fmt.Errorf("%s ended: %s", p.name, data[max(0, len(data)-1000):]), err)
		default:
		}
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", p.name, errors.Join(err, last))
	}
	return nil
}

// freePorts returns ports that nobody listened on a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// usage is what a process has taken.
type usage struct {
	// anonymous memory in bytes: what is resident and no file, as the program is one.
	anonymous int64
	processor time.Duration
}

// usageOf reads /proc/PID/stat (proc(5)): utime and stime are the 14th and 15th field, in hundredths of a second. In
// /proc/PID/statm resident memory is the second field, and that of files the third, in pages.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // begins with the third
	if len(fields) < 13 {
		return usage{}, fmt.Errorf("reading stat %q: too short", stat)
	}
	var ticks int64
	for _, n := range []int{14, 15} {
		t, err := strconv.ParseInt(fields[n-3], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("reading stat: %w", err)
		}
		ticks += t
	}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return usage{}, err
	}
	var size, resident, files int64
	if _, err := fmt.Sscan(string(statm), &size, &resident, &files); err != nil {
		return usage{}, fmt.Errorf("reading statm: %w", err)
	}
	return usage{processor: time.Duration(ticks) * 10 * time.Millisecond, anonymous: (resident - files) * int64(os.Getpagesize())}, nil
}
