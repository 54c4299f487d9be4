// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/cluster/lifecycle"
)

// prepare decides what a start is to run with, writes it down and makes the data directory. Ports, subnets and the data
// directory are chosen while no other cluster can be given the same. If it fails, nothing has happened.
func (o *operation) prepare(ctx context.Context, before entry, change Change) (entry, error) {
	e, err := o.choose(ctx, before, change)
	if err != nil {
		return entry{}, err
	}
	if before.State == lifecycle.Absent && !e.Adopted {
		err = mark(e.Config.DataDir)
	}
	if before.State == lifecycle.Running && !e.asking() && !samePlace(before.Config, e.Config) {
		err = o.moveOut(ctx, e)
	}
	if err != nil {
		return entry{}, explain(o.fail(ctx, err, before), e.Config.DataDir)
	}
	return e, nil
}

// checkKind refuses to make a node of what is a cluster, and the other way round: the data and settings of the one would be
// those of the other, and go with it.
func (o *operation) checkKind(e entry) error {
	if e.Agent == o.agent {
		return nil
	}
	is := "a cluster of this machine"
	if e.Agent {
		is = "only a node here, of a cluster on another machine"
	}
	return &Problem{
		Cause:  fmt.Sprintf("%q is %s", o.name, is),
		Remedy: fmt.Sprintf("use another --name, or delete it first with: minik8s down --purge --name %s", o.name),
	}
}

// moveOut clears what a cluster that was not stopped has left where a start will not take it over. Nobody would know of it
// once the new configuration has taken the place of the old one.
func (o *operation) moveOut(ctx context.Context, e entry) error {
	if err := o.clear(ctx, e.Before.Config, true); err != nil {
		return fmt.Errorf("leaving the settings of before: %w", err)
	}
	e.Before.State = lifecycle.Stopped
	return write(o.dir, e)
}

func (o *operation) choose(ctx context.Context, before entry, change Change) (entry, error) {
	if before.State != lifecycle.Absent {
		if err := o.checkKind(before); err != nil {
			return entry{}, err
		}
	}
	c, err := changed(before.Config, change)
	if err != nil {
		return entry{}, err
	}
	c.Name = o.name
	release, err := o.dir.Whole(ctx)
	if err != nil {
		return entry{}, err
	}
	defer release()
	others, err := otherConfigs(o.dir, o.name)
	if err != nil {
		return entry{}, err
	}
	if c, err = settle(c, others); err != nil {
		return entry{}, err
	}
	if !o.agent { // addresses are those of the control plane's machine
		if err := settlePool(&c, others); err != nil {
			return entry{}, err
		}
	}
	if err := checkOverlap(c.DataDir, string(o.dir), others); err != nil {
		return entry{}, err
	}
	marked, err := checkFormat(c.DataDir)
	if err != nil {
		return entry{}, explain(err, c.DataDir)
	}
	there, err := nodesDir(c).List()
	if err != nil {
		return entry{}, err
	}
	if c, err = keepNodes(before.Config, c, there); err != nil {
		return entry{}, err
	}
	o.added = missing(c, there)
	e := entry{State: lifecycle.Beginning, Config: c, Agent: o.agent, Made: topmostMissing(c.DataDir), Adopted: marked}
	if marked {
		e.Made = c.DataDir // by an earlier cluster
	}
	if before.State != lifecycle.Absent {
		if err := checkKept(before.Config, c, marked); err != nil {
			return entry{}, err
		}
		e = entry{State: lifecycle.Starting, Config: c, Agent: o.agent, Made: before.Made, Adopted: before.Adopted, Before: &before}
	}
	return e, explain(write(o.dir, e), string(o.dir))
}

// changed applies a change to a copy.
func changed(c Config, change Change) (Config, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return Config{}, err
	}
	var own Config // shares nothing with c
	if err := json.Unmarshal(data, &own); err != nil {
		return Config{}, err
	}
	return own, change(&own)
}

// otherConfigs are those that another cluster has, goes back to or tries. An entry that cannot be read must not keep all
// others from starting.
func otherConfigs(dir lifecycle.Dir, name string) ([]Config, error) {
	all, err := list(dir)
	var configs []Config
	for _, e := range all {
		if e.Name == name || e.Err != nil {
			continue
		}
		configs = append(configs, e.Config)
		if e.before != nil {
			configs = append(configs, e.before.Config)
		}
	}
	return configs, err
}

// checkOverlap refuses a data directory that is not the cluster's alone: it would be purged with the other, or the other
// with it.
func checkOverlap(dir, list string, others []Config) error {
	const remedy = "choose another one with --data-dir"
	if overlap(truePath(dir), truePath(list)) {
		return &Problem{Cause: fmt.Sprintf("the data directory %s meets %s, where minik8s lists the clusters of this machine", dir, list), Remedy: remedy}
	}
	for _, other := range others {
		if overlap(truePath(dir), truePath(other.DataDir)) {
			return &Problem{Cause: fmt.Sprintf("the data directory %s meets %s, that of cluster %q", dir, other.DataDir, other.Name), Remedy: remedy}
		}
	}
	return nil
}

// truePath is where a path leads by symbolic links, as far as it is there yet.
func truePath(path string) string {
	rest := ""
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if target, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(target, rest)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
	return path
}

func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

// checkKept refuses a start of a known cluster on anything but its data.
func checkKept(before, c Config, marked bool) error {
	if c.DataDir != before.DataDir {
		return fmt.Errorf("cluster %q keeps its data in %s: use another --name for another place", c.Name, before.DataDir)
	}
	if !marked {
		return &Problem{
			Cause:  fmt.Sprintf("the data of cluster %q are not in %s any more", c.Name, c.DataDir),
			Remedy: fmt.Sprintf("mount or restore it, or start anew after: minik8s down --purge --name %s", c.Name),
		}
	}
	return nil
}

// unchanged refuses what could only take effect on a cluster that is started anew.
func unchanged(running Config, change Change) error {
	want, err := changed(running, change)
	if err != nil {
		return err
	}
	leaveSettled(&want, running)
	differ, err := differences(running, want)
	if err != nil || len(differ) == 0 {
		return err
	}
	return &Problem{
		Cause:  fmt.Sprintf("cluster %q is running with %s", running.Name, strings.Join(differ, ", ")),
		Remedy: fmt.Sprintf("that changes at a start only: minik8s down --name %s, and then this command again", running.Name),
	}
}

// leaveSettled fills in what is left open, for a start to choose, with what runs.
func leaveSettled(want *Config, running Config) {
	want.DataDir = cmp.Or(want.DataDir, running.DataDir)
	want.APIPort = cmp.Or(want.APIPort, running.APIPort)
	n, have := &want.Networking, running.Networking
	n.PodSubnet, n.ServiceSubnet = cmp.Or(n.PodSubnet, have.PodSubnet), cmp.Or(n.ServiceSubnet, have.ServiceSubnet)
	if n.IPFamily == "" || n.IPFamily.says(have.families()) {
		n.IPFamily = have.IPFamily // it is that, said or not
	}
	n.DNSDomain, n.NodeSubnet = cmp.Or(n.DNSDomain, have.DNSDomain), cmp.Or(n.NodeSubnet, have.NodeSubnet)
	want.LoadBalancer.Pool = cmp.Or(want.LoadBalancer.Pool, running.LoadBalancer.Pool)
	k := &want.Kubelet
	k.Port, k.NodeName = cmp.Or(k.Port, running.Kubelet.Port), cmp.Or(k.NodeName, running.Kubelet.NodeName)
	k.DockerHost = cmp.Or(k.DockerHost, running.Kubelet.DockerHost)
}

// flagOf has the fields that have a flag of their own.
var flagOf = map[string]string{"apiPort": "--api-port", "networking.ipFamily": "--ip-family", "nodes": "--nodes", "etcd.servers": "--etcd-servers", "verbosity": "-v", "dataDir": "--data-dir"}

// differences names each field of two configurations that is not the same, with the value of both.
func differences(have, want Config) ([]string, error) {
	a, err := values(have)
	if err != nil {
		return nil, err
	}
	b, err := values(want)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, both := a[name]; !both {
			a[name] = "the default"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		wanted, given := b[name]
		if !given {
			wanted = "the default"
		}
		if a[name] == wanted {
			continue
		}
		shown := name
		if flag, is := flagOf[name]; is {
			shown = flag
		}
		all = append(all, fmt.Sprintf("%s %s, not %s", shown, a[name], wanted))
	}
	return all, nil
}

// values are those of a configuration as text, by their path in the file.
func values(c Config) (map[string]string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	all := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, is := v.(map[string]any)
		if !is {
			text, _ := json.Marshal(v) // it has just come out of JSON
			all[path] = strings.Trim(string(text), `"`)
			return
		}
		for k, v := range m {
			walk(strings.TrimPrefix(path+"."+k, "."), v)
		}
	}
	walk("", tree)
	return all, nil
}
