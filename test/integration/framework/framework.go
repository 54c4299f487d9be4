// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package framework runs a control plane inside a test process: etcd, the API server and, if wanted, controllers and the
// scheduler, with real certificates. Touch it when integration tests need another part or another way to look at one.
package framework

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	"minik8s.io/minik8s/pkg/apiserver/policycheck"
	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
	"minik8s.io/minik8s/pkg/registry/etcdstore/sharing"
	"minik8s.io/minik8s/pkg/scheduler"
)

// Options choose the parts of a Cluster.
type Options struct {
	// Dir keeps etcd's data. Default: a temporary directory that Stop removes.
	Dir string
	// QuotaBytes bounds etcd's data. Default: etcd's.
	QuotaBytes int64
	// Controllers run, selected as in controllers.Config.Enabled. Default: none.
	Controllers []string
	// Scheduler says whether pods get nodes.
	Scheduler bool
	// ClusterCIDRs are ranges that nodes get those of their pods from. Default: none.
	ClusterCIDRs []netip.Prefix
	// Clock is the controllers' time. Default: the real one.
	Clock clock.WithTicker
	// APIServer may change the API server's configuration before it is built.
	APIServer func(*apiserver.Config)
}

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	// Client has all rights.
	Client kubernetes.Interface

	options  Options
	removed  string // the temporary directory, if there is one
	ca       *pki.CA
	tokenKey []byte
	host     string
	backend  *etcd.Member
	objects  sharing.Objects // as in a cluster: a part that changed one of them would race with all others
	stopAPI  context.CancelFunc
	ended    func()
	served   chan error
	mu       sync.Mutex
	stopping []func() error // guarded by mu
	clients  map[string]*rest.Config
	nodes    int
}

// live is the number of clusters in this process.
var live atomic.Int32

// Start runs a cluster until the test ends, and fails the test if anything of it is left behind then.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	before := snapshot()
	c, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Errorf("stopping the cluster: %v", err)
		}
		if live.Load() > 0 {
			return // whose goroutines are whose could not be told; Main looks at the end
		}
		if leaks := before.leaks(10 * time.Second); len(leaks) > 0 {
			tb.Errorf("%d goroutines are left, among them:\n%s", len(leaks), leaks[0])
		}
	})
	return c
}

// Main runs the tests of a package that share a cluster, for TestMain. set hands it to them; a part that set starts, such as
// a node, ends with the cluster. Main returns the code to exit with.
func Main(m *testing.M, o Options, set func(*Cluster) error) int {
	flag.Parse()
	before := snapshot()
	c, err := New(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster:", err)
		return 1
	}
	code := 1
	if err := set(c); err != nil {
		fmt.Fprintln(os.Stderr, "preparing the cluster:", err)
	} else {
		code = m.Run()
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		code = 1
	}
	if leaks := before.leaks(10 * time.Second); code == 0 && len(leaks) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left, among them:\n%s\n", len(leaks), leaks[0])
		code = 1
	}
	return code
}

// New starts a cluster. It ends with Stop, which is not needed after an error.
func New(o Options) (_ *Cluster, err error) {
	setLogs()
	c := &Cluster{options: o, clients: map[string]*rest.Config{}}
	live.Add(1)
	c.ended = sync.OnceFunc(func() { live.Add(-1) })
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.options.Dir == "" {
		if c.removed, err = os.MkdirTemp("", "minik8s-integration-"); err != nil {
			return nil, err
		}
		c.options.Dir = c.removed
	}
	if c.ca, err = pki.NewCA("integration"); err != nil {
		return nil, err
	}
	if c.backend, err = etcd.Start(context.Background(), etcd.Config{Dir: c.options.Dir, UnsafeNoFsync: true, QuotaBytes: c.options.QuotaBytes}); err != nil {
		return nil, err
	}
	if err = c.startAPIServer(); err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		return nil, err
	}
	if len(o.Controllers) > 0 {
		if _, err = c.StartControllers(o.Controllers...); err != nil {
			return nil, err
		}
	}
	if o.Scheduler {
		_, err = c.StartScheduler()
	}
	return c, err
}

// setLogs drops the logs of all parts unless tests run with -v: conflicts and lost races are what these tests are about. Once,
// for the parts of an earlier cluster may still read where the logs go.
var setLogs = sync.OnceFunc(func() {
	if !testing.Verbose() {
		klog.SetLogger(logr.Discard())
	}
	ctrl.SetLogger(klog.Background())
})

// startAPIServer returns when the server is ready.
func (c *Cluster) startAPIServer() error {
	serving, err := c.ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return err
	}
	if c.tokenKey, err = pki.NewKey(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.host = "https://" + listener.Addr().String()
	config := apiserver.Config{
		Backend: c.backend, Listener: listener, Serving: serving, ClientCA: c.ca.Cert, TokenKey: c.tokenKey,
		AdvertiseAddress: netip.MustParseAddr("192.0.2.1"), Storage: etcdstore.Options{CompactionInterval: -1, Objects: &c.objects},
		Policy: policy.AddOns(),
	}
	if c.options.APIServer != nil {
		c.options.APIServer(&config)
	}
	server, err := apiserver.New(config)
	if err != nil {
		_ = listener.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stopAPI, c.served = cancel, make(chan error, 1)
	go func() { c.served <- server.Start(ctx) }()
	return c.waitReady()
}

func (c *Cluster) waitReady() error {
	transport, err := rest.TransportFor(c.Admin())
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return poll(30*time.Second, func() error {
		select {
		case err := <-c.served:
			c.served <- err
			return final{fmt.Errorf("the API server ended: %w", err)}
		default:
		}
		resp, err := client.Get(c.host + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", resp.Status)
		}
		return nil
	})
}

// StartControllers runs the selected controllers in a process of their own, so to speak: stop ends them as abruptly as
// possible. Those not stopped end with the cluster.
func (c *Cluster) StartControllers(enabled ...string) (stop func() error, err error) {
	check, err := policycheck.New(c.User("system:kube-controller-manager"))
	if err != nil {
		return nil, err
	}
	manager, err := controllers.New(controllers.Config{
		RESTConfig:  c.User("system:kube-controller-manager"),
		CheckPolicy: check,
		ClientFor: func(account string) (*rest.Config, error) {
			return c.User("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system"), nil
		},
		RootCA:    c.ca.Cert,
		TokenKey:  c.tokenKey,
		SigningCA: c.ca.Pair,
		Enabled:   enabled,
		Clock:     c.options.Clock,

		ClusterCIDRs: c.options.ClusterCIDRs,
		Transform:    c.objects.Transform,
	})
	if err != nil {
		return nil, err
	}
	return c.run("controllers", manager.Start), nil
}

// StartScheduler runs the scheduler until the cluster or what is returned stops it.
func (c *Cluster) StartScheduler() (stop func() error, err error) {
	config := c.User("system:kube-scheduler")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	shared := scheduler.NewInformers(client, c.objects.Transform)
	s, err := scheduler.New(scheduler.Config{Client: client, KubeConfig: config, Informers: shared, Configuration: &configv1.KubeSchedulerConfiguration{
		PodMaxBackoffSeconds: new(int64(1)),
	}})
	if err != nil {
		return nil, err
	}
	return c.run("scheduler", func(ctx context.Context) error {
		shared.Start(ctx.Done())
		defer shared.Shutdown()
		return s.Start(ctx)
	}), nil
}

// run starts a part. The function it returns stops the part, once, and tells how it ended.
func (c *Cluster) run(name string, part func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = append(c.stopping, stop)
	return stop
}

// Stop ends all parts, the API server and etcd last.
func (c *Cluster) Stop() error {
	var errs []error
	c.mu.Lock()
	stopping := c.stopping
	c.stopping = nil
	c.mu.Unlock()
	for _, stop := range slices.Backward(stopping) {
		errs = append(errs, stop())
	}
	if c.stopAPI != nil {
		c.stopAPI()
		errs = append(errs, <-c.served)
		c.stopAPI = nil
	}
	if c.backend != nil {
		errs = append(errs, c.backend.Close())
		c.backend = nil
	}
	c.ended()
	if c.removed != "" {
		errs = append(errs, os.RemoveAll(c.removed))
	}
	return errors.Join(errs...)
}
