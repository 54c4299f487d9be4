// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/corefile"
)

// lookTimeout is how long the ConfigMap is looked for before the default Corefile counts.
const lookTimeout = 10 * time.Second

// followCorefile serves the Corefile of the ConfigMap, and the default one while there is none.
func (s *Server) followCorefile(ctx context.Context) error {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", ConfigName).String()
	}
	informer := informers.NewSharedInformerFactoryWithOptions(s.config.Client, 0, informers.WithNamespace(ConfigNamespace),
		informers.WithTweakListOptions(only)).Core().V1().ConfigMaps().Informer()
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
		DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		return fmt.Errorf("dns: watching the Corefile: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { informer.RunWithContext(ctx) })

	look, stop := context.WithTimeout(ctx, lookTimeout)
	if !cache.WaitForCacheSync(look.Done(), reg.HasSynced) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(look.Err(), "The Corefile cannot be read, the default counts meanwhile", "configmap", klog.KRef(ConfigNamespace, ConfigName))
	}
	stop()
	l := loader{server: s}
	for ctx.Err() == nil {
		obj, _, err := informer.GetStore().GetByKey(ConfigNamespace + "/" + ConfigName)
		if err != nil {
			return fmt.Errorf("dns: reading the Corefile: %w", err)
		}
		configMap, _ := obj.(*corev1.ConfigMap)
		l.load(ctx, configMap)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// loader knows which Corefile is served.
type loader struct {
	server *Server
	// loaded and refused are the last texts that were taken and that were not.
	loaded, refused string
	served          bool
}

// load serves the Corefile of a ConfigMap, which may be nil. If it cannot be understood, the one before goes on.
func (l *loader) load(ctx context.Context, configMap *corev1.ConfigMap) {
	s, log := l.server, klog.FromContext(ctx)
	text := DefaultCorefile(s.config.ClusterDomain)
	if configMap != nil {
		text = configMap.Data[ConfigKey]
	}
	if l.served && (text == l.loaded && l.refused == "" || text == l.refused) {
		return
	}
	servers, err := corefile.Parse(text)
	if err != nil {
		s.config.Metrics.ReloadFail.Inc()
		kept := "the one before is kept"
		if !l.served {
			kept = "the default is used"
			l.take(DefaultCorefile(s.config.ClusterDomain))
		}
		l.refused = text
		log.Error(err, "The Corefile cannot be used: "+kept, "configmap", klog.KRef(ConfigNamespace, ConfigName))
		l.event(configMap, corev1.EventTypeWarning, "InvalidCorefile", fmt.Sprintf("%v; %s", err, kept))
		return
	}
	again := l.served
	l.serve(text, servers)
	if again {
		log.Info("The Corefile was loaded anew")
		l.event(configMap, corev1.EventTypeNormal, "CorefileLoaded", "Cluster DNS uses the changed Corefile")
	}
}

// take serves a text that is known to be good.
func (l *loader) take(text string) {
	servers, err := corefile.Parse(text)
	if err != nil {
		klog.Background().Error(err, "The default Corefile is wrong")
		return
	}
	l.serve(text, servers)
}

func (l *loader) serve(text string, servers []corefile.Server) {
	l.server.serve(servers)
	l.loaded, l.refused, l.served = text, "", true
}

func (l *loader) event(configMap *corev1.ConfigMap, kind, reason, text string) {
	if l.server.config.Recorder != nil && configMap != nil {
		l.server.config.Recorder.Event(configMap, kind, reason, text)
	}
}
