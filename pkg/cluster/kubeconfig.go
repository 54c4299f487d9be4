// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"minik8s.io/minik8s/pkg/pki"
)

// KubeconfigPath is where a cluster's own kubeconfig is.
func KubeconfigPath(c Config) string { return filepath.Join(c.DataDir, "kubeconfig") }

// contextName is the name of a cluster's context, user and cluster entry in a kubeconfig.
func contextName(name string) string {
	if name == DefaultName {
		return name
	}
	return DefaultName + "-" + name
}

// Context is the name of a cluster's context in a kubeconfig.
func Context(c Config) string { return contextName(c.Name) }

func kubeconfig(name, server string, ca []byte, user pki.Pair) *api.Config {
	n := contextName(name)
	config := api.NewConfig()
	config.Clusters[n] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[n] = &api.AuthInfo{ClientCertificateData: user.Cert, ClientKeyData: user.Key}
	config.Contexts[n] = &api.Context{Cluster: n, AuthInfo: n}
	config.CurrentContext = n
	return config
}

// publishAdmin brings the cluster's kubeconfig up to date with the user's certificate. What else is in it is its user's, who may
// have chosen a namespace, and it is not touched while nothing is new.
func (r *runner) publishAdmin(admin pki.Pair) error {
	path, n := KubeconfigPath(r.config), contextName(r.config.Name)
	now := kubeconfig(r.config.Name, Server(r.config), r.credentials.ca.Cert, admin)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return writeKubeconfig(path, now) // there is none, or none that anybody can use
	}
	if !renewEntries(config, now, n) {
		return nil
	}
	return writeKubeconfig(path, config)
}

// renewEntries puts into a kubeconfig what of its entries n is the cluster's business, and reports whether that is new.
func renewEntries(config, now *api.Config, n string) (changed bool) {
	if c, want := config.Clusters[n], now.Clusters[n]; c == nil {
		config.Clusters[n], changed = want, true
	} else if c.Server != want.Server || !bytes.Equal(c.CertificateAuthorityData, want.CertificateAuthorityData) {
		c.Server, c.CertificateAuthorityData, changed = want.Server, want.CertificateAuthorityData, true
	}
	if u, want := config.AuthInfos[n], now.AuthInfos[n]; u == nil {
		config.AuthInfos[n], changed = want, true
	} else if !bytes.Equal(u.ClientCertificateData, want.ClientCertificateData) || !bytes.Equal(u.ClientKeyData, want.ClientKeyData) {
		u.ClientCertificateData, u.ClientKeyData, changed = want.ClientCertificateData, want.ClientKeyData, true
	}
	if config.Contexts[n] == nil {
		config.Contexts[n], changed = now.Contexts[n], true
	}
	if config.Contexts[config.CurrentContext] == nil {
		config.CurrentContext, changed = n, true
	}
	return changed
}

func writeKubeconfig(path string, config *api.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

// CopyKubeconfig writes the cluster's kubeconfig, for which it waits if the cluster has just begun, to a further file, which
// nobody but its owner can read then. What that has of others stays, as with kind: it may be the one by which the user reaches all
// else. Under sudo it is given to whoever called it, if the folder is theirs.
func CopyKubeconfig(ctx context.Context, c Config, path string) error {
	if _, err := awaitAdmin(ctx, c); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		data, err := os.ReadFile(KubeconfigPath(c))
		if err != nil {
			return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
		}
		return os.WriteFile(path, data, 0o600) // a pipe or a terminal has nothing that could stay
	}
	own, err := ownEntries(c)
	if err != nil {
		return err
	}
	err = changeKubeconfig(path, func(there *api.Config) (bool, error) {
		own.into(there, contextName(c.Name))
		if err := os.Chmod(path, 0o600); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
		return true, nil
	})
	if errors.Is(err, errNoKubeconfig) {
		return &Problem{Cause: fmt.Sprintf("%s is there already, and is no kubeconfig", path), Remedy: "choose another file with --kubeconfig", Err: err}
	}
	if err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if uid, gid, is := sudoer(); is && owns(uid, filepath.Dir(path)) {
		if err := os.Lchown(path, uid, gid); err != nil {
			return fmt.Errorf("giving the kubeconfig to its user: %w", err)
		}
	}
	return nil
}

// kubeconfigEntries are what a cluster has in a kubeconfig.
type kubeconfigEntries struct {
	cluster *api.Cluster
	login   *api.AuthInfo
	context *api.Context
}

// ownEntries are those in the cluster's own kubeconfig.
func ownEntries(c Config) (e kubeconfigEntries, err error) {
	own, err := clientcmd.LoadFromFile(KubeconfigPath(c))
	if err != nil {
		return e, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	n := contextName(c.Name)
	if e = (kubeconfigEntries{own.Clusters[n], own.AuthInfos[n], own.Contexts[n]}); e.cluster == nil || e.login == nil || e.context == nil {
		return e, fmt.Errorf("the cluster's kubeconfig has no context %q", n)
	}
	return e, nil
}

// into puts them into a kubeconfig, and makes the context the current one.
func (e kubeconfigEntries) into(config *api.Config, n string) {
	config.Clusters[n], config.AuthInfos[n], config.Contexts[n] = e.cluster, e.login, e.context
	config.CurrentContext = n
}

// sudoer is who called sudo, if this process runs under it.
func sudoer() (uid, gid int, is bool) {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || os.Geteuid() != 0 || uid == 0 {
		return 0, 0, false
	}
	gid, err = strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, err == nil
}

func owns(uid int, dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	s, is := info.Sys().(*syscall.Stat_t)
	return is && int(s.Uid) == uid
}

// mergedBy marks what Merge has put into the user's kubeconfig.
const mergedBy = "minik8s.io/cluster"

// mergeMark says whose something in the user's kubeconfig is: the same name may be that of a cluster of another user.
type mergeMark struct {
	Provider string `json:"provider"`
	// CA is a hash of the cluster's; earlier versions did not say it.
	CA string `json:"ca,omitempty"`
}

func markOf(ca []byte) mergeMark { return mergeMark{"minik8s", fmt.Sprintf("%x", sha256.Sum256(ca))} }

// ours reports whether something in the user's kubeconfig was put there for a minik8s cluster.
func ours(extensions map[string]runtime.Object) bool { return extensions[mergedBy] != nil }

// oursFor reports whether it was put there for the one with this CA, as far as that is known.
func oursFor(extensions map[string]runtime.Object, ca []byte) bool {
	var found mergeMark
	if u, is := extensions[mergedBy].(*runtime.Unknown); is && json.Unmarshal(u.Raw, &found) == nil && found.CA != "" && len(ca) > 0 {
		return found == markOf(ca)
	}
	return ours(extensions)
}

// sameCA reports whether a cluster in the user's kubeconfig is the one with this CA: earlier versions did not mark theirs.
func sameCA(c *api.Cluster, ca []byte) bool {
	return c != nil && len(ca) > 0 && bytes.Equal(c.CertificateAuthorityData, ca)
}

// ownCA is the CA in a cluster's own kubeconfig, nil if there is none.
func ownCA(c Config) []byte {
	own, err := clientcmd.LoadFromFile(KubeconfigPath(c))
	if err != nil || own.Clusters[contextName(c.Name)] == nil {
		return nil
	}
	return own.Clusters[contextName(c.Name)].CertificateAuthorityData
}

// Merge adds a cluster to the user's kubeconfig and makes it the current context. It returns the file that it wrote. What
// is not minik8s' own is not replaced.
func Merge(c Config) (string, error) {
	own, err := ownEntries(c)
	if err != nil {
		return "", err
	}
	n, ca := contextName(c.Name), own.cluster.CertificateAuthorityData
	raw, err := json.Marshal(markOf(ca))
	if err != nil {
		return "", err
	}
	mark := &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	own.cluster.Extensions = map[string]runtime.Object{mergedBy: mark}
	own.login.Extensions = map[string]runtime.Object{mergedBy: mark}
	own.context.Extensions = map[string]runtime.Object{mergedBy: mark}
	access := clientcmd.NewDefaultPathOptions()
	path := access.GetDefaultFilename()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("changing your kubeconfig: %w", err)
	}
	err = changeKubeconfig(path, func(there *api.Config) (bool, error) {
		user, err := access.GetStartingConfig() // of all files that KUBECONFIG may name
		if err != nil {
			return false, err
		}
		if foreign(user, n, ca) {
			return false, &Problem{
				Cause:  fmt.Sprintf("your kubeconfig has a %q already that is no cluster of minik8s", n),
				Remedy: fmt.Sprintf("rename it (kubectl config rename-context %s NEW-NAME), or use the cluster's own file: minik8s kubeconfig --path --name %s", n, c.Name),
			}
		}
		own.into(there, n)
		return true, nil
	})
	switch {
	case isProblem(err):
		return "", err
	case err != nil:
		return "", fmt.Errorf("changing your kubeconfig: %w", err)
	}
	return path, nil
}

// foreign reports whether a kubeconfig has anything of a name that is not minik8s' own.
func foreign(user *api.Config, n string, ca []byte) bool {
	if sameCA(user.Clusters[n], ca) {
		return false
	}
	c, a, x := user.Clusters[n], user.AuthInfos[n], user.Contexts[n]
	return c != nil && !ours(c.Extensions) || a != nil && !ours(a.Extensions) || x != nil && !ours(x.Extensions)
}

// Unmerge removes a cluster from the user's kubeconfig, and nothing of the same name that is not minik8s' own. Absence is
// success. It returns the file.
func Unmerge(name string) (string, error) {
	var ca []byte
	if c, err := Load(name); err == nil {
		ca = ownCA(c)
	}
	return unmerge(name, ca)
}

func unmerge(name string, ca []byte) (string, error) {
	access := clientcmd.NewDefaultPathOptions()
	if _, err := access.GetStartingConfig(); errors.Is(err, fs.ErrNotExist) {
		return access.GetDefaultFilename(), nil
	} else if err != nil {
		return "", fmt.Errorf("reading your kubeconfig: %w", err)
	}
	n := contextName(name)
	var errs []error
	for _, path := range access.GetLoadingPrecedence() {
		// First without the lock: to lock it would make a folder or fail where there is nothing to do.
		there, err := clientcmd.LoadFromFile(path)
		if err != nil || !removeEntries(there, n, ca) {
			continue // what cannot be read was told above
		}
		errs = append(errs, changeKubeconfig(path, func(there *api.Config) (bool, error) { return removeEntries(there, n, ca), nil }))
	}
	switch err := errors.Join(errs...); {
	case isProblem(err):
		return "", err
	case err != nil:
		return "", fmt.Errorf("changing your kubeconfig: %w", err)
	}
	return access.GetDefaultFilename(), nil
}

// removeEntries removes those of a name that are of the cluster with this CA, and reports whether there were any.
func removeEntries(config *api.Config, n string, ca []byte) (removed bool) {
	legacy := sameCA(config.Clusters[n], ca)
	mine := func(extensions map[string]runtime.Object) bool { return legacy || oursFor(extensions, ca) }
	if c := config.Clusters[n]; c != nil && mine(c.Extensions) {
		delete(config.Clusters, n)
		removed = true
	}
	if a := config.AuthInfos[n]; a != nil && mine(a.Extensions) {
		delete(config.AuthInfos, n)
		removed = true
	}
	if c := config.Contexts[n]; c != nil && mine(c.Extensions) {
		delete(config.Contexts, n)
		removed = true
		if config.CurrentContext == n {
			config.CurrentContext = ""
		}
	}
	return removed
}
