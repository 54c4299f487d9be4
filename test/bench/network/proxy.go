// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/pkg/proxy"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// proxyCommand is the first argument of a process that is our proxy and nothing else.
const proxyCommand = "proxy"

// The ways into the kernel. Legacy is iptables by the kernel's older interface.
const (
	iptables = "iptables"
	legacy   = "iptables-legacy"
	nftables = "nftables"
)

var allModes = []string{iptables, legacy, nftables}

// startProxy starts a proxy in a room.
func (b *bench) startProxy(side figure.Side, mode string, r *room, dir string) (*program.Program, error) {
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, r.api, "system:kube-proxy"); err != nil {
		return nil, err
	}
	flags := []string{"--kubeconfig=" + kubeconfig, "--hostname-override=" + nodeName, "--cluster-cidr=" + endpointIPs.String()}
	if mode == nftables {
		flags = append(flags, "--proxy-mode="+nftables)
	} else {
		flags = append(flags, "--proxy-mode="+iptables)
	}
	path, err := programs(mode, dir)
	if err != nil {
		return nil, err
	}
	enter := []string{"--net=" + r.path, "env", "PATH=" + path}
	if side == figure.Ours {
		own, err := os.Executable()
		if err != nil {
			return nil, err
		}
		enter = append(enter, own, proxyCommand)
	} else {
		enter = append(enter, b.upstream)
		// What a namespace of its own does not let it set, and how many connections there may be, is left alone.
		flags = append(flags, "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, err
	}
	return program.Start(dir, nsenter, "proxy", append(enter, flags...)...)
}

// programs is the search path in which iptables is the one of a mode.
func programs(mode, dir string) (string, error) {
	path := os.Getenv("PATH")
	if mode != legacy {
		return path, nil
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		found, err := exec.LookPath(legacyName(name))
		if err != nil {
			return "", err
		}
		if err := os.Symlink(found, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir + ":" + path, nil
}

// legacyName is what Debian calls it: iptables-legacy-save for iptables-save.
func legacyName(name string) string {
	for i, c := range name {
		if c == '-' {
			return name[:i] + "-legacy" + name[i:]
		}
	}
	return name + "-legacy"
}

// serveProxy runs our proxy, and nothing else, in this process, with the informers that it has on a machine that has joined. The
// flags are upstream's.
func serveProxy(ctx context.Context) error {
	set := flag.NewFlagSet(proxyCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	name := set.String("hostname-override", "", "the node")
	cidr := set.String("cluster-cidr", "", "addresses of pods")
	mode := set.String("proxy-mode", "", "how rules reach the kernel")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	pods, err := netip.ParsePrefix(*cidr)
	if err != nil {
		return err
	}
	_, shared, err := watching(*kubeconfig)
	if err != nil {
		return err
	}
	p, err := proxy.New(proxy.Config{
		Cluster: "bench", NodeName: *name, NodeIPs: []netip.Addr{nodeIP}, Informers: shared,
		ClusterCIDRs: []netip.Prefix{pods}, Mode: proxy.Mode(*mode), HealthzAddr: "127.0.0.1:10256", MetricsAddr: "127.0.0.1:10249",
	})
	if err != nil {
		return fmt.Errorf("making a proxy: %w", err)
	}
	shared.StartWithContext(ctx)
	go heap.Manage(ctx, 0)
	return p.Start(ctx)
}

// watching returns a client and its informers, as a machine that has joined has them.
func watching(kubeconfig string) (kubernetes.Interface, informers.SharedInformerFactory, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType, config.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	return client, informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(cache.TransformStripManagedFields())), nil
}
