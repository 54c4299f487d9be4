// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/atomicwriter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/internal/node"
	"minik8s.io/minik8s/pkg/kubelet/internal/nodeshutdown"
	"minik8s.io/minik8s/pkg/kubelet/internal/staticpod"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
)

// newShutdown makes what ends pods before the machine goes down, nil if that is not asked for.
func (k *Kubelet) newShutdown(pods *evictor) *nodeshutdown.Manager {
	c := k.cfg.Configuration
	periods := nodeshutdown.Periods(c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration, c.ShutdownGracePeriodByPodPriority)
	if len(periods) == 0 {
		return nil
	}
	k.recallShutdown()
	return nodeshutdown.New(nodeshutdown.Config{
		Periods: periods, Connect: k.logind, Pods: leaving{pods}, Changed: k.reporter.Poke, Report: k.reportShutdown,
		Recorder: k.recorder, NodeRef: node.Ref(k.cfg.NodeName), Clock: k.cfg.Clock,
	})
}

// lastShutdown is the last one that pods were ended for, as it is on disk: it is told after the next boot.
type lastShutdown struct {
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`
}

func (k *Kubelet) shutdownFile() string {
	return filepath.Join(k.cfg.RootDir, "graceful_node_shutdown_state")
}

// reportShutdown tells of a shutdown that has begun, and when pods had ended for it, now and after the next boot.
func (k *Kubelet) reportShutdown(began, ended time.Time) {
	k.metrics.Shutdown(began, ended)
	data, err := json.Marshal(lastShutdown{began, ended})
	if err == nil {
		err = atomicwriter.WriteFile(k.shutdownFile(), data, 0o600)
	}
	if err != nil {
		klog.Background().Error(err, "Writing down when the node shut down failed")
	}
}

// recallShutdown tells of the last shutdown that was reported.
func (k *Kubelet) recallShutdown() {
	data, err := os.ReadFile(k.shutdownFile())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var last lastShutdown
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil {
		klog.Background().Error(err, "When the node shut down is lost")
		return
	}
	k.metrics.Shutdown(last.StartTime, last.EndTime)
}

// leaving are the pods of a node that goes down.
type leaving struct{ *evictor }

var _ nodeshutdown.Pods = leaving{}

// End has a pod end for good, but for a static one, which runs again after the next boot.
func (l leaving) End(ctx context.Context, pod *corev1.Pod, grace time.Duration) {
	l.life.Fail(ctx, pod, status.Failure{
		Reason: nodeshutdown.Reason, Message: nodeshutdown.Message, Grace: grace, Disrupted: true, Transient: staticpod.Is(pod),
	})
	l.workers.Terminate(pod.UID, grace)
}

// unready is why pods cannot run or come, nil if they can.
func (k *Kubelet) unready() error {
	if err := k.notReady(); err != nil {
		return err
	}
	return k.shuttingDown()
}

// shuttingDown is that the node is, nil if it is not.
func (k *Kubelet) shuttingDown() error {
	if r := k.running.Load(); r != nil && r.shutdown != nil {
		return r.shutdown.Status()
	}
	return nil
}
