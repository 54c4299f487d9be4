// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// It says its name, and when it is asked to end also that.
	p, err := Start(dir, "/bin/sh", "named", "-c", `trap "echo bye; exit 3" TERM; echo "I am $0"; while :; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	says := func(what string) func(context.Context) error {
		return func(context.Context) error {
			data, err := os.ReadFile(p.Log)
			if err == nil && !strings.Contains(string(data), what) {
				err = errors.New("no " + what)
			}
			return err
		}
	}
	if err := p.Await(t.Context(), time.Millisecond, says("I am named")); err != nil {
		t.Fatal(err)
	}
	if err := p.Alive(); err != nil {
		t.Errorf("it runs, and yet: %v", err)
	}
	if got, err := p.Usage(); err != nil || got.Resident == 0 {
		t.Errorf("it has taken %+v, %v", got, err)
	}
	p.Stop()
	for name, err := range map[string]error{"alive": p.Alive(), "await": p.Await(t.Context(), time.Millisecond, says("nothing"))} {
		for _, want := range []string{"named ended: exit status 3", p.Log, "bye"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", name, want, err)
			}
		}
	}
	p.Stop() // again
	(*Program)(nil).Stop()
	if _, err := Start(dir, filepath.Join(dir, "none"), "none"); err == nil {
		t.Error("a program was started that is not there")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 17 18 19 20 100 22 23\n"
	const status = "Name:\ta\nVmHWM:\t     130 kB\nVmRSS:\t     100 kB\nRssAnon:\t      60 kB\nRssFile:\t      40 kB\n"
	want := Usage{Processor: 2 * time.Second, Peak: 130 << 10, Memory: Memory{Resident: 100 << 10, Anonymous: 60 << 10}}
	for name, stat := range map[string]string{"plain": "1 (a)" + rest, "parentheses in the name": "1 (a) (b c)" + rest} {
		if got, err := parse(stat, status); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for name, files := range map[string][2]string{
		"short stat":      {"1 (a) S 1", status},
		"letters":         {"1 (a) S 1 2 3 4 5 6 7 8 9 10 x y", status},
		"no peak":         {"1 (a)" + rest, strings.Replace(status, "VmHWM", "VmOther", 1)},
		"another unit":    {"1 (a)" + rest, strings.Replace(status, "100 kB", "100 MB", 1)},
		"no memory known": {"1 (a)" + rest, ""},
	} {
		if got, err := parse(files[0], files[1]); err == nil {
			t.Errorf("%s: it is taken as %+v", name, got)
		}
	}
}

func TestUsageOf(t *testing.T) {
	t.Parallel()
	if got, err := UsageOf(os.Getpid()); err != nil || got.Anonymous == 0 || got.Resident <= got.Anonymous || got.Peak < got.Resident {
		t.Errorf("of this process: %+v, %v", got, err)
	}
}

// A program that had much memory for a moment has had it.
func TestSample(t *testing.T) {
	t.Parallel()
	const much = 20 << 20
	p, err := Start(t.TempDir(), "/bin/sh", "sh", "-c", fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); echo had it; exec cat /dev/zero >/dev/null`, much))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	stop := p.Sample(time.Millisecond)
	if err := p.Await(t.Context(), time.Millisecond, func(context.Context) error {
		u, err := p.Usage()
		if err != nil {
			return err
		}
		said, err := os.ReadFile(p.Log)
		if err == nil && (len(said) == 0 || u.Anonymous > much) {
			err = fmt.Errorf("it has %d bytes and said %q", u.Anonymous, said)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := stop(); got < much {
		t.Errorf("the most of memory was %d, want at least %d", got, much)
	}
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != 5 || ports[0] == 0 {
		t.Errorf("got %v, want five different ports", ports)
	}
}

// A server of the identity and its administrator know each other, whichever way the files are read.
func TestIdentity(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "identity")
	id, err := NewIdentity(dir, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range id.flags() {
		if _, file, _ := strings.Cut(flag, "-file="); file != "" {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", flag, err)
			}
		}
	}
	pair, err := tls.LoadX509KeyPair(id.File("apiserver.crt"), id.File("apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.TLS.PeerCertificates[0].Subject.String()))
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: id.roots, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	server := &Server{URL: s.URL, identity: id}
	read, err := clientcmd.RESTConfigFromKubeConfig([]byte(id.admins(s.URL)))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "somebody")
	if err := id.Kubeconfig(file, s.URL, "system:somebody", "system:some"); err != nil {
		t.Fatal(err)
	}
	somebody, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	if pair, err := tls.LoadX509KeyPair(somebody.CertFile, somebody.KeyFile); err != nil || pair.Leaf.Subject.String() != "CN=system:somebody,O=system:some" {
		t.Errorf("somebody has %+v, %v", pair.Leaf, err)
	}
	for name, config := range map[string]*rest.Config{"its configuration": server.Config(), "kubeconfig": read, "somebody's": somebody} {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := fine(c, config.Host)(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := fine(server.HTTP(), s.URL)(t.Context()); err != nil {
		t.Errorf("its own client: %v", err)
	}
}

func TestFine(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			http.Error(w, "not yet", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	if err := fine(s.Client(), s.URL+"/good")(t.Context()); err != nil {
		t.Error(err)
	}
	if err := fine(s.Client(), s.URL+"/bad")(t.Context()); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("500: %v", err)
	}
}
