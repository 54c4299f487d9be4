// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// A client that was not written in Go, and shares no code with the server, finds in our answers what it expects.
func TestPythonClient(t *testing.T) {
	k := up(t, newCluster(t, "python"), "--nodes", "0")
	const python = "/usr/bin/python3" // the distribution's, which has the distribution's packages
	cmd := exec.CommandContext(t.Context(), python, filepath.Join(suite.root, "test/e2e/testdata/python/client.py"), k.namespace(t, "python"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	r, err := cluster.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Errorf("client.py: %s", r)
	}
}
