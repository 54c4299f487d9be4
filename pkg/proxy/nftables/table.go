// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nftables is the backend that writes a table of nftables, by netlink (network/nftables). Change it when a packet should take
// another way in that mode.
//
// There is a table per IP family. Maps lead from an address, protocol and port to the chain of a Service, so that it does not matter how
// many Services there are:
//
//	prerouting, output ─► firewall-check ─► (firewall-ips) firewall-… : source ranges of load balancers
//	prerouting, output ─► services ─► (service-ips) plain-N : one of N numbers is chosen, and (plain-endpoints) has an address for
//	                                  that and where the packet goes; or
//	                                  (service-ips, service-nodeports) [external-… ─►] service-… or local-… : a number is
//	                                  chosen, and (endpoints-…) has an address for it
//	input, forward, output ─► service-endpoints-check ─► (no-endpoint-services) reject-chain or drop-chain
//	postrouting ─► masquerading
//
// A table cannot accept what another one drops: packets of pods get past Docker's rules by those of the pod network.
package nftables

import (
	"cmp"
	"context"
	"slices"

	"minik8s.io/minik8s/pkg/network/namespace"
	nft "minik8s.io/minik8s/pkg/network/nftables"
	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Table implements backend.Backend by one table.
type Table struct {
	config backend.Config
	kernel nft.Table
	base   *nft.State
	// parts are what the Services should have in the kernel.
	parts map[model.Name]*nft.State
	// claims are what parts say of elements of shared sets, of which some are said more than once.
	claims claims
	// trusted tells that the kernel has all that, by our knowledge.
	trusted bool
	// everything is what the last Apply has compared.
	everything bool
}

var _ backend.Backend = (*Table)(nil)

// New returns a Table that knows nothing of the kernel's state yet.
func New(c backend.Config) *Table {
	return &Table{
		config: c, kernel: nft.Table{Family: languageOf(c.Family).family, Name: "minik8s-proxy-" + c.Cluster}, base: baseOf(c),
		parts: map[model.Name]*nft.State{}, claims: claims{},
	}
}

// Apply implements backend.Backend. All of it is one transaction.
func (t *Table) Apply(_ context.Context, changes backend.Changes) error {
	have, want := nft.NewState(), nft.NewState()
	touched := map[place]bool{}
	for name, s := range changes {
		old, now := t.parts[name], nft.NewState()
		if s != nil {
			now = render(s, t.config)
			t.parts[name] = now
		} else {
			delete(t.parts, name)
		}
		if old == nil {
			old = nft.NewState()
		}
		oldShared, oldOwn := t.shared(name, old)
		shared, own := t.shared(name, now)
		for _, p := range slices.Concat(oldShared, shared) {
			if touched[p.place] {
				continue
			}
			touched[p.place] = true
			if d, ok := t.claims.effective(p.place); ok {
				have.AddElement(p.set, p.key, d)
			}
		}
		t.claims.withdraw(oldShared)
		t.claims.add(shared)
		have.Merge(oldOwn)
		want.Merge(own)
	}
	for p := range touched {
		if d, ok := t.claims.effective(p); ok {
			want.AddElement(p.set, p.key, d)
		}
	}
	trusted := t.trusted
	t.everything = !trusted
	t.trusted = false // what fails from here on, the kernel has or has not
	err := t.inside(func() (err error) {
		if !trusted {
			want = t.all()
			if have, err = t.kernel.Read(); err != nil {
				return err
			}
		}
		_, err = t.kernel.Change(have, want)
		return err
	})
	t.trusted = err == nil
	return err
}

// shared splits what a Service has into the elements of shared sets and the rest.
func (t *Table) shared(name model.Name, s *nft.State) (list []claim, own *nft.State) {
	own = &nft.State{Chains: s.Chains, Sets: s.Sets, Elements: map[string]nft.Elements{}}
	for set, of := range s.Elements {
		if _, ok := t.base.Sets[set]; !ok {
			own.Elements[set] = of
			continue
		}
		for key, d := range of {
			list = append(list, claim{place{set, key}, said{name, d}})
		}
	}
	return list, own
}

// all is the whole table as it should be.
func (t *Table) all() *nft.State {
	s := nft.NewState()
	s.Merge(t.base)
	for name, part := range t.parts {
		_, own := t.shared(name, part)
		s.Merge(own)
	}
	for p := range t.claims {
		if d, ok := t.claims.effective(p); ok {
			s.AddElement(p.set, p.key, d)
		}
	}
	return s
}

// Check implements backend.Backend.
func (t *Table) Check(context.Context) (intact bool, err error) {
	if !t.trusted {
		return false, nil
	}
	err = t.inside(func() error {
		if intact = t.kernel.Untouched(); intact {
			return nil
		}
		have, err := t.kernel.Read()
		intact = err == nil && have != nil && have.Equal(t.all())
		if err == nil {
			t.trusted = intact
		}
		return err
	})
	return intact, err
}

// Purge implements backend.Backend.
func (t *Table) Purge(context.Context) error {
	t.trusted = false
	return t.inside(func() error {
		have, err := t.kernel.Read()
		if err != nil {
			return err
		}
		_, err = t.kernel.Change(have, nil)
		return err
	})
}

// Last implements backend.Backend.
func (t *Table) Last() backend.Sync { return backend.Sync{Everything: t.everything} }

func (t *Table) inside(f func() error) error { return namespace.Do(t.config.NetNS, f) }

// place is where an element of a shared set is.
type place struct {
	set string
	key nft.Key
}

// said is what a Service says of a place.
type said struct {
	by   model.Name
	data nft.Data
}

// claim is what is said of a place.
type claim struct {
	place
	said said
}

// claims are what Services say of places, each as often as it is said.
type claims map[place][]said

// effective is what counts of the claims to a place: of two Services that claim one, what the first by name says, and of its ports the
// first by what they have there.
func (c claims) effective(p place) (nft.Data, bool) {
	list := c[p]
	if len(list) == 0 {
		return nft.Data{}, false
	}
	return slices.MinFunc(list, func(a, b said) int {
		return cmp.Or(a.by.Compare(b.by), cmp.Compare(a.data.Chain, b.data.Chain), cmp.Compare(a.data.Value, b.data.Value))
	}).data, true
}

func (c claims) add(list []claim) {
	for _, p := range list {
		c[p.place] = append(c[p.place], p.said)
	}
}

func (c claims) withdraw(list []claim) {
	for _, p := range list {
		rest := c[p.place]
		if i := slices.Index(rest, p.said); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
		if c[p.place] = rest; len(rest) == 0 {
			delete(c, p.place)
		}
	}
}
