// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// definitionsTime is for how long a definition that is not served is looked at again and again: it has to be accepted first.
const definitionsTime = time.Minute

// installed knows which kinds of a group the API server has that users install.
type installed struct {
	client discovery.DiscoveryInterface
	group  schema.GroupVersion
	// read are the resources that the router reads.
	read []string
	// defined are the definitions that there were when somebody last asked what is served of them.
	defined string
	since   time.Time
	served  []string
}

// look finds out what is served, if the definitions are not those of last time or are still on their way. known says that there is
// an answer; if it may soon be another one, it triggers then.
func (r *Router) look(i *installed) (known bool, err error) {
	if !r.watch.definitions.HasSynced() {
		return false, nil
	}
	again, err := i.look(r.watch.definitions.GetStore().List())
	if again {
		time.AfterFunc(time.Second, r.watch.poke)
	}
	return err == nil, err
}

// look finds out what is served of some definitions. again says that they are still on their way.
func (i *installed) look(definitions []any) (again bool, err error) {
	var names, versions []string
	for _, d := range definitions {
		d := d.(*metav1.PartialObjectMetadata)
		if name, ok := strings.CutSuffix(d.Name, "."+i.group.Group); ok {
			names, versions = append(names, name), append(versions, d.Name+"@"+d.ResourceVersion)
		}
	}
	slices.Sort(versions)
	defined := strings.Join(versions, " ")
	if defined != i.defined {
		i.defined, i.since = defined, time.Now()
	} else if time.Since(i.since) > definitionsTime || i.all(names) {
		return false, nil
	}
	if len(names) == 0 {
		i.served = nil
		return false, nil
	}
	list, err := i.client.ServerResourcesForGroupVersion(i.group.String())
	if apierrors.IsNotFound(err) {
		i.served = nil
		return true, nil
	}
	if err != nil {
		i.defined = "" // ask again
		return true, fmt.Errorf("finding out which kinds of %s there are: %w", i.group, err)
	}
	i.served = nil
	for _, r := range list.APIResources {
		i.served = append(i.served, r.Name)
	}
	return !i.all(names), nil
}

// all tells whether those of some names are served that the router reads.
func (i *installed) all(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(i.read, n) && !slices.Contains(i.served, n) })
}
