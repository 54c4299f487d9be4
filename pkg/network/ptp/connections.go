// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"io/fs"
	"runtime"
	"strconv"

	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"
)

// setting is one of how the kernel remembers connections.
type setting struct {
	name string
	want int
	// kernels, if it is not 0, is the kernel's own value, and the only one that is changed. Others are, if they are less than want.
	kernels int
	// machine says that it is one of the machine, and not of a network namespace.
	machine bool
}

// Settings of connections, and the kernel's own time for those that are silent, in seconds.
const (
	most        = "net/netfilter/nf_conntrack_max"
	buckets     = "net/netfilter/nf_conntrack_buckets"
	halfClosed  = "net/netfilter/nf_conntrack_tcp_timeout_close_wait"
	established = "net/netfilter/nf_conntrack_tcp_timeout_established"

	kernelsEstablished = 432000
)

// connections are upstream's proxy's defaults: so many connections for each processor, in a table in which not more than four of them share
// a place; an hour of silence for one of which one side has ended, which the kernel forgets after a minute, so that it would break through
// a Service; and a day for others, not five. What somebody has set to more, and any time of his own, stays.
func connections(processors int) []setting {
	const perProcessor, least, limit = 32 << 10, 128 << 10, 1 << 20
	n := min(max(processors*perProcessor, least), limit)
	return []setting{
		{name: most, want: n, machine: true},
		{name: buckets, want: n / 4, machine: true},
		{name: halfClosed, want: 3600},
		{name: established, want: 86400, kernels: kernelsEstablished},
	}
}

// processors are those of the machine, of which this process may have fewer.
func processors() int {
	if n, err := cpuset.NumCPU(); err == nil && n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// next is what the setting is to be that is now so, not ok if it stays.
func (s setting) next(now string) (value string, ok bool) {
	n, err := strconv.Atoi(now)
	if err != nil || s.kernels != 0 && n != s.kernels || s.kernels == 0 && n >= s.want {
		return "", false
	}
	return strconv.Itoa(s.want), true
}

// remember makes the settings so. Where the kernel knows no connections yet, they are looked at again with the rules. One that cannot be
// changed, as on a machine that is shared, stays as it is, which the log says once: pods are connected all the same. The caller holds mu.
func (p *Plugin) remember() {
	for _, s := range p.connections {
		if s.machine && p.config.NetNS != "" {
			continue
		}
		now, err := readSysctl(s.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			value, ok := s.next(now)
			if !ok {
				continue
			}
			err = p.changeSysctl(s.name, value)
		}
		if err != nil && !p.stays[s.name] {
			klog.Background().Error(err, "A setting of the kernel for connections stays as it is", "setting", s.name, "wanted", s.want)
		}
		p.stays[s.name] = err != nil
	}
}
