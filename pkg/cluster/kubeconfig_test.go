// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/pki"
)

func TestMergeUnmerge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	mine := api.NewConfig()
	mine.Clusters["mine"] = &api.Cluster{Server: "https://mine"}
	mine.Contexts["mine"] = &api.Context{Cluster: "mine"}
	mine.CurrentContext = "mine"
	if err := clientcmd.WriteToFile(*mine, file); err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(c); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.CurrentContext != "minik8s-x" || got.Clusters["mine"] == nil || got.Clusters["minik8s-x"].Server != "https://x" {
		t.Errorf("merged: %+v", got)
	}
	if _, err := Unmerge("x"); err != nil {
		t.Fatal(err)
	}
	if got, err = clientcmd.LoadFromFile(file); err != nil {
		t.Fatal(err)
	}
	if got.CurrentContext == "minik8s-x" || got.Clusters["minik8s-x"] != nil || got.Clusters["mine"] == nil {
		t.Errorf("unmerged: %+v", got)
	}
}

// TestReplaceKept_CutOff: what a write that was cut off has left goes with the next one, and nothing else does.
func TestReplaceKept_CutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "config"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config", ".config.minik8s-1234", ".config-20261128", ".config.minik8s", ".other.minik8s-1234"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := replaceKept(link, []byte("y")); err != nil {
		t.Fatal(err)
	}
	names, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".config-20261128", ".config.minik8s", ".other.minik8s-1234", "config"}, names); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "y" {
		t.Errorf("written: %q, %v", data, err)
	}
}

// TestMerge_AtOnce has clusters merged at the same time: none must take another one's entries out again.
func TestMerge_AtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "folder", "config")
	t.Setenv("KUBECONFIG", file)
	var all []Config
	for i := range 8 {
		c := Config{Name: fmt.Sprintf("c%d", i), DataDir: t.TempDir()}
		if err := writeKubeconfig(KubeconfigPath(c), kubeconfig(c.Name, "https://x", []byte(c.Name), pki.Pair{})); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	var merging errgroup.Group
	for _, c := range all {
		merging.Go(func() error { _, err := Merge(c); return err })
	}
	if err := merging.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if n := Context(c); got.Clusters[n] == nil || got.AuthInfos[n] == nil || got.Contexts[n] == nil {
			t.Errorf("%s is not there", n)
		}
	}
	if _, err := os.Stat(file + ".lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock: %v", err)
	}
}

// TestMerge_Locked has somebody who never lets go: the user is told by which file, and nothing is changed.
func TestMerge_Locked(t *testing.T) {
	file := userConfig(t, "mine")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var p *Problem
		if _, err := Merge(c); !errors.As(err, &p) || !strings.Contains(p.Cause, file+".lock") {
			t.Errorf("the error is %v, want a Problem that names the lock", err)
		}
		if _, err := Unmerge("x"); err != nil {
			t.Errorf("where there is nothing to remove: %v", err)
		}
	})
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("it has become %s, %v", after, err)
	}
}

// TestMergeUnmerge_Files: a link stays a link, the mode is the user's, and what is in several files is removed from all.
func TestMergeUnmerge_Files(t *testing.T) {
	dir := t.TempDir()
	target, link, second := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "second")
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", []byte("ca"), pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{second, target} {
		if err := os.WriteFile(file, nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{second, link} {
		t.Setenv("KUBECONFIG", list)
		if file, err := Merge(c); err != nil || file != list {
			t.Fatalf("merged in %q, %v", file, err)
		}
	}
	same := func(when string, entries int) {
		t.Helper()
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: the link is %v, %v", when, info, err)
		}
		for _, file := range []string{second, target} {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%s: %s is %v, %v", when, file, info, err)
			}
			if got, err := clientcmd.LoadFromFile(file); err != nil || len(got.Clusters)+len(got.AuthInfos)+len(got.Contexts) != entries {
				t.Errorf("%s: %s has %+v, %v", when, file, got, err)
			}
		}
	}
	same("merged", 3)
	t.Setenv("KUBECONFIG", link+string(filepath.ListSeparator)+second)
	if _, err := unmerge("x", []byte("ca")); err != nil {
		t.Fatal(err)
	}
	same("unmerged", 0)
}

// userConfig makes a kubeconfig of the user's with a cluster, a user and a context of a name.
func userConfig(t *testing.T, name string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	mine := api.NewConfig()
	mine.Clusters[name] = &api.Cluster{Server: "https://mine", CertificateAuthorityData: []byte("mine")}
	mine.AuthInfos[name] = &api.AuthInfo{Token: "t"}
	mine.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	if err := clientcmd.WriteToFile(*mine, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// What the user has under the name of a cluster is neither replaced nor removed.
func TestMergeUnmerge_LeavesOthers(t *testing.T) {
	file := userConfig(t, "minik8s-x")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", []byte("ca"), pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	var p *Problem
	if _, err := Merge(c); !errors.As(err, &p) {
		t.Errorf("merging gives %v, want a Problem", err)
	}
	if _, err := unmerge("x", []byte("ca")); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("it has become %s, %v", after, err)
	}
}

// A cluster of the same name of another user, or in another folder, may be merged in the same file.
func TestUnmerge_OfTheSameName(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ca     []byte // of the cluster that is purged
		marked bool   // by this version
		gone   bool
	}{
		{"it", []byte("a"), true, true},
		{"another", []byte("b"), true, false},
		{"one whose data are gone", nil, true, true},
		{"one that an earlier version has merged", []byte("b"), false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", file)
			c := Config{Name: "x", DataDir: t.TempDir()}
			if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", []byte("a"), pki.Pair{})); err != nil {
				t.Fatal(err)
			}
			if _, err := Merge(c); err != nil {
				t.Fatal(err)
			}
			if !tc.marked {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, regexp.MustCompile(`(?m)^ *ca: .*\n`).ReplaceAll(data, nil), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := unmerge("x", tc.ca); err != nil {
				t.Fatal(err)
			}
			got, err := clientcmd.LoadFromFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if left := len(got.Clusters) + len(got.AuthInfos) + len(got.Contexts); left != 0 && tc.gone || left != 3 && !tc.gone {
				t.Errorf("left: %+v", got)
			}
		})
	}
}

// What an earlier version has merged is known by its CA.
func TestUnmerge_OfEarlierVersions(t *testing.T) {
	file := userConfig(t, "minik8s-x")
	if _, err := unmerge("x", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(file)
	if err != nil || len(got.Clusters)+len(got.AuthInfos)+len(got.Contexts) > 0 {
		t.Errorf("left: %+v, %v", got, err)
	}
}

func TestCopyKubeconfig(t *testing.T) {
	t.Parallel()
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "there")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{path, filepath.Join(dir, "new")} {
		if err := CopyKubeconfig(t.Context(), c, to); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", to, info.Mode(), err)
		}
	}
	if err := CopyKubeconfig(t.Context(), c, os.DevNull); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
}

// TestCopyKubeconfig_LeavesOthers: the file may be the one by which the user reaches other clusters, or something else altogether.
func TestCopyKubeconfig_LeavesOthers(t *testing.T) {
	t.Parallel()
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	mine := kubeconfig("y", "https://y", nil, pki.Pair{})
	before := kubeconfig("x", "https://before", nil, pki.Pair{})
	mine.Clusters["minik8s-x"] = before.Clusters["minik8s-x"] // of a cluster of this name that was purged
	path := filepath.Join(t.TempDir(), "mine")
	if err := clientcmd.WriteToFile(*mine, path); err != nil {
		t.Fatal(err)
	}
	if err := CopyKubeconfig(t.Context(), c, path); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.CurrentContext != "minik8s-x" || got.Clusters["minik8s-x"].Server != "https://x" || got.Contexts["minik8s-x"] == nil || got.AuthInfos["minik8s-x"] == nil {
		t.Errorf("what is in the file of the cluster: %+v", got)
	}
	if got.Contexts["minik8s-y"] == nil || got.AuthInfos["minik8s-y"] == nil || got.Clusters["minik8s-y"] == nil {
		t.Errorf("what is left of another cluster: %+v", got)
	}

	notes := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(notes, []byte("what was there"), 0o644); err != nil {
		t.Fatal(err)
	}
	var p *Problem
	if err := CopyKubeconfig(t.Context(), c, notes); !errors.As(err, &p) {
		t.Errorf("in place of something else: %v, want a Problem", err)
	}
	data, err := os.ReadFile(notes)
	info, statErr := os.Stat(notes)
	if err := errors.Join(err, statErr); err != nil || string(data) != "what was there" || info.Mode().Perm() != 0o644 {
		t.Errorf("that has become %q, %v, %v", data, info, err)
	}
}

// TestCopyKubeconfig_NotYet: a cluster that has just begun writes its kubeconfig in a moment.
func TestCopyKubeconfig_NotYet(t *testing.T) {
	t.Parallel()
	c := Config{Name: "x", DataDir: t.TempDir()}
	to := filepath.Join(t.TempDir(), "copy")
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := CopyKubeconfig(late, c, to); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of a cluster that never writes it: %v", err)
	}
	copied := make(chan error)
	go func() { copied <- CopyKubeconfig(t.Context(), c, to) }()
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
}

// A file in a folder of whoever called sudo is theirs; one elsewhere is root's.
func TestCopyKubeconfig_UnderSudo(t *testing.T) {
	machinetest.Root(t, "to give a file away")
	const nobody = 65534
	t.Setenv("SUDO_UID", fmt.Sprint(nobody))
	t.Setenv("SUDO_GID", fmt.Sprint(nobody))
	c := Config{Name: "x", DataDir: t.TempDir()}
	if err := writeKubeconfig(KubeconfigPath(c), kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	theirs, roots := t.TempDir(), t.TempDir()
	if err := os.Chown(theirs, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]int{theirs: nobody, roots: 0} {
		path := filepath.Join(dir, "kubeconfig")
		if err := CopyKubeconfig(t.Context(), c, path); err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err != nil || int(s.Uid) != want || s.Mode&0o777 != 0o600 {
			t.Errorf("%s belongs to %d with mode %o, %v", path, s.Uid, s.Mode, err)
		}
	}
}

// TestPublishAdmin: the cluster's kubeconfig gets what is new of the cluster, and keeps what its user, or a program of theirs, has
// put there; it is not written while nothing is new.
func TestPublishAdmin(t *testing.T) {
	t.Parallel()
	r := &runner{config: Config{Name: "x", DataDir: t.TempDir(), APIPort: 1}}
	path := KubeconfigPath(r.config)
	publish := func() os.FileInfo {
		t.Helper()
		var err error
		if r.credentials, err = loadCredentials(filepath.Join(r.config.DataDir, "pki"), Server(r.config), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.credentials.renewFiles(r.publishAdmin); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	load := func() *api.Config {
		t.Helper()
		c, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	publish()
	set := load()
	set.Contexts["minik8s-x"].Namespace = "dev"
	set.Contexts["other"], set.CurrentContext = &api.Context{Cluster: "other", Namespace: "prod"}, "other"
	if err := clientcmd.WriteToFile(*set, path); err != nil {
		t.Fatal(err)
	}
	written, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := publish(); !os.SameFile(written, again) || !again.ModTime().Equal(written.ModTime()) {
		t.Error("it was written again, with nothing new")
	}
	for _, tc := range []struct {
		name   string
		change func()
	}{
		{"a new certificate", func() {
			if err := os.Remove(r.credentials.admin().path); err != nil {
				t.Fatal(err)
			}
		}},
		{"another port", func() { r.config.APIPort = 2 }},
		{"entries removed", func() {
			c := load()
			delete(c.Clusters, "minik8s-x")
			delete(c.AuthInfos, "minik8s-x")
			if err := clientcmd.WriteToFile(*c, path); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		tc.change()
		publish()
		admin, err := r.credentials.admin().renewed()
		if err != nil {
			t.Fatal(err)
		}
		got := load()
		cluster, user := got.Clusters["minik8s-x"], got.AuthInfos["minik8s-x"]
		if cluster == nil || cluster.Server != Server(r.config) || !bytes.Equal(cluster.CertificateAuthorityData, r.credentials.ca.Cert) {
			t.Errorf("%s: the cluster is %+v", tc.name, cluster)
		}
		if user == nil || !bytes.Equal(user.ClientCertificateData, admin.Cert) || !bytes.Equal(user.ClientKeyData, admin.Key) {
			t.Errorf("%s: it has not the certificate of now", tc.name)
		}
		if own, other := got.Contexts["minik8s-x"], got.Contexts["other"]; own == nil || own.Namespace != "dev" || other == nil || got.CurrentContext != "other" {
			t.Errorf("%s: what its user has set has become %+v, %+v, current %q", tc.name, own, other, got.CurrentContext)
		}
		// Whatever is current there, the cluster is reached by what is its own.
		if config, err := Admin(r.config); err != nil || config.Host != Server(r.config) || !bytes.Equal(config.CertData, admin.Cert) {
			t.Errorf("%s: the administrator is %+v, %v", tc.name, config, err)
		}
	}
	if err := os.WriteFile(path, []byte("{ half"), 0o600); err != nil {
		t.Fatal(err)
	}
	publish()
	if got := load(); got.CurrentContext != "minik8s-x" {
		t.Errorf("of what cannot be read has become %+v", got)
	}
}
