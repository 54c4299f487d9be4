// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

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

func kubeconfig(name, server string, ca []byte, user pki.Pair) *api.Config {
	n := contextName(name)
	config := api.NewConfig()
	config.Clusters[n] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[n] = &api.AuthInfo{ClientCertificateData: user.Cert, ClientKeyData: user.Key}
	config.Contexts[n] = &api.Context{Cluster: n, AuthInfo: n}
	config.CurrentContext = n
	return config
}

func writeKubeconfig(path string, config *api.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

// Merge adds a cluster to the user's kubeconfig and makes it the current context. It returns the file that it wrote.
func Merge(c Config) (string, error) {
	own, err := clientcmd.LoadFromFile(KubeconfigPath(c))
	if err != nil {
		return "", fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	access := clientcmd.NewDefaultPathOptions()
	user, err := access.GetStartingConfig()
	if err != nil {
		return "", fmt.Errorf("reading your kubeconfig: %w", err)
	}
	n := contextName(c.Name)
	user.Clusters[n], user.AuthInfos[n], user.Contexts[n] = own.Clusters[n], own.AuthInfos[n], own.Contexts[n]
	// Entries are written to the file that they came from, which must be the user's.
	user.Clusters[n].LocationOfOrigin, user.AuthInfos[n].LocationOfOrigin, user.Contexts[n].LocationOfOrigin = "", "", ""
	user.CurrentContext = n
	if err := clientcmd.ModifyConfig(access, *user, true); err != nil {
		return "", fmt.Errorf("writing your kubeconfig: %w", err)
	}
	return access.GetDefaultFilename(), nil
}

// Unmerge removes a cluster from the user's kubeconfig. Absence is success.
func Unmerge(name string) (string, error) {
	access := clientcmd.NewDefaultPathOptions()
	user, err := access.GetStartingConfig()
	if errors.Is(err, fs.ErrNotExist) {
		return access.GetDefaultFilename(), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading your kubeconfig: %w", err)
	}
	n := contextName(name)
	if user.Clusters[n] == nil && user.AuthInfos[n] == nil && user.Contexts[n] == nil {
		return access.GetDefaultFilename(), nil // writing would make a file where there was none
	}
	delete(user.Clusters, n)
	delete(user.AuthInfos, n)
	delete(user.Contexts, n)
	if user.CurrentContext == n {
		user.CurrentContext = ""
	}
	if err := clientcmd.ModifyConfig(access, *user, true); err != nil {
		return "", fmt.Errorf("writing your kubeconfig: %w", err)
	}
	return access.GetDefaultFilename(), nil
}
