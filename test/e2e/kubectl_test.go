// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// The scripts, one per area of kubectl, and the files that they name. A script is a list of commands:
//
//	$ must succeed        ! must fail        @ must succeed, and is only for where controllers run
//	< a line of its input
//	> a text that must be in what it prints
//
//go:embed testdata/kubectl
var kubectlScripts embed.FS

// command is one command of a script.
type command struct {
	args        []string
	fails       bool
	controllers bool
	input       string
	want        []string
}

func parseScript(text string) ([]command, error) {
	var script []command
	for line := range strings.Lines(text) {
		sign, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if sign == "$" || sign == "!" || sign == "@" {
			script = append(script, command{args: strings.Fields(rest), fails: sign == "!", controllers: sign == "@"})
			continue
		}
		if sign == "#" || sign == "" {
			continue
		}
		if len(script) == 0 || sign != "<" && sign != ">" {
			return nil, fmt.Errorf("no line of a script: %q", line)
		}
		if last := &script[len(script)-1]; sign == "<" {
			last.input += rest + "\n"
		} else {
			last.want = append(last.want, rest)
		}
	}
	return script, nil
}

// readScripts returns the scripts by area.
func readScripts(t *testing.T) map[string][]command {
	t.Helper()
	files, err := fs.Glob(kubectlScripts, "testdata/kubectl/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	scripts := map[string][]command{}
	for _, file := range files {
		data, err := fs.ReadFile(kubectlScripts, file)
		if err != nil {
			t.Fatal(err)
		}
		script, err := parseScript(string(data))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scripts[strings.TrimSuffix(filepath.Base(file), ".txt")] = script
	}
	return scripts
}

// scriptFiles makes a directory with what scripts read: the files beside them, and keys and certificates.
func scriptFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := fs.Sub(kubectlScripts, "testdata/kubectl/files")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "web", Hosts: []string{"web.example"}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ParseKey(pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	requests := certificateRequest(t, "kubectl-approved", key) + "---\n" + certificateRequest(t, "kubectl-denied", key)
	for name, data := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "csr.yaml": []byte(requests)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func certificateRequest(t *testing.T, name string, key crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec:
  signerName: example.com/signer
  usages: [client auth]
  request: %s
`, name, base64.StdEncoding.EncodeToString(block))
}

// session runs kubectl as a script does: in a directory, a namespace and a home.
type session struct{ kubeconfig, dir, namespace, home string }

func (s session) run(ctx context.Context, c command) (cluster.Result, error) {
	cmd := exec.CommandContext(ctx, binary("kubectl"), c.args...)
	if c.args[0] != "__complete" {
		cmd.Args = append([]string{cmd.Args[0], "--namespace=" + s.namespace}, c.args...)
	}
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "HOME="+s.home, "KUBE_EDITOR=sed -i s/red/green/")
	cmd.Stdin = strings.NewReader(c.input)
	return cluster.Run(cmd)
}

// check runs a command and says what is wrong with how it ended.
func (s session) check(ctx context.Context, c command) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	r, err := s.run(ctx, c)
	if err != nil {
		return err
	}
	if (r.Code != 0) != c.fails {
		return fmt.Errorf("kubectl %s: %s", strings.Join(c.args, " "), r)
	}
	for _, want := range c.want {
		if !strings.Contains(r.Stdout+r.Stderr, want) {
			return fmt.Errorf("kubectl %s: no %q: %s", strings.Join(c.args, " "), want, r)
		}
	}
	return nil
}

// Every verb of kubectl that needs no kubelet works on a control plane without nodes.
func TestKubectl(t *testing.T) {
	k := up(t, newCluster(t, "kubectl"), "--nodes", "0")
	for area, script := range readScripts(t) {
		t.Run(area, func(t *testing.T) {
			t.Parallel()
			s := session{kubeconfig: k.kubeconfig, dir: scriptFiles(t), namespace: k.namespace(t, "kubectl-"+area), home: suite.dir}
			for _, c := range script {
				if err := s.check(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		ns := k.namespace(t, "kubectl-watch")
		out := background(t, k.command(t.Context(), "-n", ns, "get", "configmaps", "-w", "--output-watch-events"))
		out.await(t, 20*time.Second, "kube-root-ca.crt")
		k.kubectl(t, "-n", ns, "create", "configmap", "seen")
		out.await(t, 20*time.Second, "ADDED      seen")
		k.kubectl(t, "-n", ns, "delete", "configmap", "seen")
		out.await(t, 20*time.Second, "DELETED    seen")
	})
	t.Run("proxy", func(t *testing.T) {
		t.Parallel()
		out := background(t, k.command(t.Context(), "proxy", "--port=0"))
		out.await(t, 20*time.Second, "Starting to serve on ")
		_, address, _ := strings.Cut(strings.TrimSpace(out.String()), "Starting to serve on ")
		body, err := fetch(t.Context(), http.MethodGet, "http://"+address+"/api/v1/namespaces/default", "")
		if err != nil {
			t.Fatal(err)
		}
		contains(t, body, `"name":"default"`)
	})
}
