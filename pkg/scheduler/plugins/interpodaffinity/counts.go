// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package interpodaffinity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/pernode"
)

// domain is a value of a topology key.
type domain struct{ key, value string }

// counts has the number of pods per domain that has some.
type counts map[domain]int

func (c counts) add(d domain, by int) {
	if c[d] += by; c[d] == 0 {
		delete(c, d)
	}
}

// addAt counts in the node's domain, if it is in one.
func (c counts) addAt(node *corev1.Node, key string, by int) {
	if value, ok := node.Labels[key]; ok {
		c.add(domain{key, value}, by)
	}
}

// with is the sum of both, in a map of the caller's.
func (c counts) with(other counts) counts {
	if len(c) == 0 {
		return maps.Clone(other)
	}
	for d, by := range other {
		c.add(d, by)
	}
	return c
}

// maxSelections is for how many different terms numbers are kept: what they take grows with the number of nodes, some 80 bytes for each.
const maxSelections = 32

// selection has the numbers of the pods that match terms, which it follows from one cycle to the next.
type selection struct {
	pods  counts
	nodes *pernode.Memory[counts]
}

// count counts the pods that match all terms, once in the domains of each. What is returned is the plugin's, until it counts again.
func (p *InterPodAffinity) count(terms []fwk.AffinityTerm, nodes []fwk.NodeInfo) counts {
	key := keyOf(terms)
	var s *selection
	if known, ok := p.selected.Get(key); ok {
		s = known.(*selection)
	} else {
		s = newSelection(terms)
		p.selected.Add(key, s)
	}
	s.nodes.Look(nodes)
	return s.pods
}

func newSelection(terms []fwk.AffinityTerm) *selection {
	s := &selection{pods: counts{}}
	s.nodes = pernode.New(func(n fwk.NodeInfo) counts {
		number := 0
		for _, other := range n.GetPods() {
			if matchesAll(terms, other.GetPod(), nil) {
				number++
			}
		}
		if number == 0 {
			return nil
		}
		found := counts{}
		for i := range terms {
			found.addAt(n.Node(), terms[i].TopologyKey, number)
		}
		return found
	}, func(before, now counts) {
		for d, by := range now {
			s.pods.add(d, by)
		}
		for d, by := range before {
			s.pods.add(d, -by)
		}
	})
	return s
}

// kind is what a term does.
type kind int

const (
	requiredAffinity kind = iota
	requiredAntiAffinity
	preferredAffinity
	preferredAntiAffinity
)

// carriedTerm is a term of pods that are on nodes already.
type carriedTerm struct {
	key    string
	kind   kind
	weight int32 // of one that is preferred
	term   fwk.AffinityTerm
	pods   counts // that have the term
}

// carriedTerms are the terms of the pods on nodes, by their keys. They are the plugin's, until it looks again.
func (p *InterPodAffinity) carriedTerms() (map[string]*carriedTerm, error) {
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	if some, err := lister.HavePodsWithAffinityList(); err != nil || len(some) == 0 {
		return nil, err
	}
	nodes, err := lister.List()
	if err != nil {
		return nil, err
	}
	p.carried.nodes.Look(nodes)
	return p.carried.terms, nil
}

// carried has the different terms of the pods on nodes, which it follows from one cycle to the next.
type carried struct {
	terms map[string]*carriedTerm
	nodes *pernode.Memory[[]posting]
}

// posting is a number of pods in a domain that have a term.
type posting struct {
	term   *carriedTerm
	domain domain
	pods   int
}

func newCarried() *carried {
	c := &carried{terms: map[string]*carriedTerm{}}
	c.nodes = pernode.New(c.find, func(before, now []posting) {
		for _, p := range now {
			c.terms[p.term.key] = p.term
			p.term.pods.add(p.domain, p.pods)
		}
		for _, p := range before {
			if p.term.pods.add(p.domain, -p.pods); len(p.term.pods) == 0 {
				delete(c.terms, p.term.key)
			}
		}
	})
	return c
}

// find lists the terms of the pods on a node, each once.
func (c *carried) find(n fwk.NodeInfo) (out []posting) {
	post := func(k kind, t fwk.AffinityTerm, weight int32) {
		value, ok := n.Node().Labels[t.TopologyKey]
		if !ok {
			return
		}
		key := fmt.Sprint(k, weight, keyOf([]fwk.AffinityTerm{t}))
		if i := slices.IndexFunc(out, func(p posting) bool { return p.term.key == key }); i >= 0 {
			out[i].pods++
			return
		}
		term := c.terms[key]
		if term == nil {
			term = &carriedTerm{key: key, kind: k, weight: weight, term: t, pods: counts{}}
		}
		out = append(out, posting{term: term, domain: domain{t.TopologyKey, value}, pods: 1})
	}
	for _, o := range n.GetPodsWithAffinity() {
		other := framework.AsPodInfo(o)
		for _, t := range other.RequiredAffinity {
			post(requiredAffinity, t, 0)
		}
		for _, t := range other.RequiredAntiAffinity {
			post(requiredAntiAffinity, t, 0)
		}
		for _, t := range other.PreferredAffinity {
			post(preferredAffinity, t.AffinityTerm, t.Weight)
		}
		for _, t := range other.PreferredAntiAffinity {
			post(preferredAntiAffinity, t.AffinityTerm, t.Weight)
		}
	}
	return out
}

// keyOf is the same for terms that do the same.
func keyOf(terms []fwk.AffinityTerm) string {
	var b strings.Builder
	for i := range terms {
		t := &terms[i]
		// One that selects all has the same text as one that selects none.
		fmt.Fprintf(&b, "%q %q %t %q %q %t;", t.TopologyKey, t.Selector, t.Selector.Empty(), sets.List(t.Namespaces), t.NamespaceSelector, t.NamespaceSelector.Empty())
	}
	return b.String()
}
