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
	// services are those that the kernel should have. What they are there is rendered when it is needed: it would take several times the
	// memory of all that it is made of.
	services map[model.Name]*model.Service
	// claims are what they say of elements of shared sets, of which some are said more than once.
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
		services: map[model.Name]*model.Service{}, claims: claims{},
	}
}

// Apply implements backend.Backend. All of it is one transaction.
func (t *Table) Apply(_ context.Context, changes backend.Changes) error {
	trusted := t.trusted
	t.everything = !trusted
	t.trusted = false // what fails from here on, the kernel has or has not
	var have, want *nft.State
	if trusted {
		have, want = t.difference(changes)
	} else {
		t.note(changes)
		want = t.all()
	}
	err := t.inside(func() (err error) {
		if !trusted {
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

// difference notes changes, and returns what belongs to them as it was and as it shall be.
func (t *Table) difference(changes backend.Changes) (have, want *nft.State) {
	have, want = nft.NewState(), nft.NewState()
	touched := map[place]bool{}
	for name, s := range changes {
		old, now := t.split(t.services[name]), t.split(s)
		for _, p := range slices.Concat(old.shared, now.shared) {
			touched[p.place] = true
		}
		have.Merge(old.own)
		want.Merge(now.own)
	}
	for p := range touched {
		t.put(have, p)
	}
	t.note(changes)
	for p := range touched {
		t.put(want, p)
	}
	return have, want
}

// note takes over what Services are now.
func (t *Table) note(changes backend.Changes) {
	for name, s := range changes {
		t.claims.withdraw(t.split(t.services[name]).shared)
		if s == nil {
			delete(t.services, name)
			continue
		}
		t.services[name] = s
		t.claims.add(t.split(s).shared)
	}
}

// put adds what counts at a place.
func (t *Table) put(to *nft.State, p place) {
	if d, ok := t.claims.effective(p); ok {
		to.AddElement(p.set, p.key, d)
	}
}

// part is what a Service has in the table: elements of shared sets and the rest.
type part struct {
	shared []claim
	own    *nft.State
}

// split renders a Service; nil has nothing.
func (t *Table) split(s *model.Service) part {
	if s == nil {
		return part{own: nft.NewState()}
	}
	whole := render(s, t.config)
	p := part{own: &nft.State{Chains: whole.Chains, Sets: whole.Sets, Elements: map[string]nft.Elements{}}}
	for set, of := range whole.Elements {
		if _, ok := t.base.Sets[set]; !ok {
			p.own.Elements[set] = of
			continue
		}
		for key, d := range of {
			p.shared = append(p.shared, claim{place{set, key}, said{s.Name, d}})
		}
	}
	return p
}

// all is the whole table as it should be.
func (t *Table) all() *nft.State {
	s := nft.NewState()
	s.Merge(t.base)
	for _, service := range t.services {
		s.Merge(t.split(service).own)
	}
	for p := range t.claims {
		t.put(s, p)
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
