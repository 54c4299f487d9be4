// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command program is the driver of package csitest, for pods of end-to-end tests. Touch it when those need another one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"minik8s.io/minik8s/pkg/kubelet/csitest"
)

func main() {
	name := flag.String("name", "test.csi.minik8s.io", "of the driver")
	node := flag.String("node", "node", "what the driver calls the node")
	data := flag.String("data", "", "directory of the volumes")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "directory of the kubelet")
	flag.Parse()
	d := &csitest.Driver{
		Name: *name, NodeID: *node, Data: *data, MaxVolumes: 8, Topology: map[string]string{"topology." + *name + "/node": *node},
		Capabilities: []csipb.NodeServiceCapability_RPC_Type{
			csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
			csipb.NodeServiceCapability_RPC_EXPAND_VOLUME,
		},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	endpoint := filepath.Join(*kubelet, "plugins", *name, "csi.sock")
	err := os.MkdirAll(*data, 0o750)
	if err == nil {
		err = d.Start(endpoint)
	}
	if err == nil {
		err = d.Announce(filepath.Join(*kubelet, "plugins_registry", *name+"-reg.sock"), endpoint)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-ctx.Done()
	d.Stop()
}
