// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import "errors"

// TLS is how to speak to a daemon that listens on the network with TLS.
type TLS struct {
	// CertPath is a folder with ca.pem, cert.pem and key.pem, as DOCKER_CERT_PATH. Default "": no TLS.
	CertPath string
	// Verify checks the daemon's certificate against ca.pem, as DOCKER_TLS_VERIFY.
	Verify bool
}

// Config configures a Runtime.
type Config struct {
	// Host is the daemon's address, such as "unix:///var/run/docker.sock". Default "": DOCKER_HOST and its companions in
	// the environment, else the default socket. The daemon must run on this machine, because the kubelet plumbs the
	// namespaces of its processes.
	Host string
	// TLS is used if Host is set.
	TLS TLS
	// Cluster names the cluster. It is a label on everything that is made, so that several clusters live side by side
	// on one daemon. Required.
	Cluster string
	// Node names the node within the cluster; a Runtime sees only its own node's containers. Required except for Purge.
	Node string
	// NetNS is the path of the node's network namespace, for pods that are in it. Default "": that of the process.
	NetNS string
	// KubeletDir is the directory of the node's kubelet, which plugins call kubeletdir.Standard in the mounts that they ask for. Default "":
	// it is there.
	KubeletDir string
	// LogMaxSize is the size at which a container's log is rotated, in Docker's notation. Default "10m".
	LogMaxSize string
	// LogMaxFiles is how many files of a container's log are kept, the current one included. Default 2.
	LogMaxFiles int
	// CDIDirs are where the specifications of CDI devices are, the last one counts most. Default: those of the daemon if it knows
	// such devices, else /etc/cdi and /var/run/cdi.
	CDIDirs []string
}

func (c *Config) complete() error {
	if c.Cluster == "" {
		return errors.New("docker: Config.Cluster is required")
	}
	if c.LogMaxSize == "" {
		c.LogMaxSize = "10m"
	}
	if c.LogMaxFiles == 0 {
		c.LogMaxFiles = 2
	}
	return nil
}
