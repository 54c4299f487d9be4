// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
)

const (
	// healthTimeout is how long what a driver has said of a device counts if it has not said that either, healthPause the wait
	// before a driver is asked again; both are upstream's.
	healthTimeout, healthPause = 30 * time.Second, 5 * time.Second
	// maxDevices are counted of one driver: it may invent any number.
	maxDevices = 16384
)

// deviceKey names a device of a driver.
type deviceKey struct{ pool, device string }

// condition is what a driver has said of a device.
type condition struct {
	health  corev1.ResourceHealthStatus
	message string
	until   time.Time // not known from then on
}

// watchHealth takes what an instance says of its devices until ctx ends (KEP-4680).
func (m *Manager) watchHealth(ctx context.Context, i *instance) {
	logger := klog.FromContext(ctx).WithValues("driverName", i.driver)
	for {
		stream, err := i.health.NodeWatchResources(ctx, &drahealthv1.NodeWatchResourcesRequest{})
		for err == nil {
			var got *drahealthv1.NodeWatchResourcesResponse
			if got, err = stream.Recv(); err == nil {
				m.tell(m.heard(i, got.GetDevices()))
			}
		}
		m.tell(m.heard(i, nil))
		if status.Code(err) == codes.Unimplemented {
			return
		}
		if ctx.Err() == nil {
			logger.V(2).Info("Health of devices is not known", "err", err)
		}
		if !m.sleep(ctx, healthPause) {
			return
		}
	}
}

// heard makes what an instance says now, which is all that it knows, the health of its devices, and returns the pods that have one
// which is not as it was. No devices: it says nothing any more.
func (m *Manager) heard(i *instance, list []*drahealthv1.DeviceHealth) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, before := m.cfg.Clock.Now(), m.health[i]
	after := map[deviceKey]condition{}
	for _, d := range list[:min(len(list), maxDevices)] {
		c := condition{health: corev1.ResourceHealthStatusUnknown, message: d.GetMessage(), until: now.Add(healthTimeout)}
		if len(c.message) > corev1.ResourceHealthMessageMaxLength {
			c.message = strings.ToValidUTF8(c.message[:corev1.ResourceHealthMessageMaxLength-3], "") + "..."
		}
		if s := d.GetHealthCheckTimeoutSeconds(); s > 0 && s < int64(time.Hour*24*365/time.Second) {
			c.until = now.Add(time.Duration(s) * time.Second)
		}
		switch d.GetHealth() {
		case drahealthv1.HealthStatus_HEALTHY:
			c.health = corev1.ResourceHealthStatusHealthy
		case drahealthv1.HealthStatus_UNHEALTHY:
			c.health = corev1.ResourceHealthStatusUnhealthy
		}
		after[deviceKey{d.GetDevice().GetPoolName(), d.GetDevice().GetDeviceName()}] = c
	}
	m.health[i] = after
	if len(list) == 0 {
		delete(m.health, i)
	}
	var touched []types.UID
	for uid, c := range m.state.Claims {
		changed := slices.ContainsFunc(c.Drivers[i.driver], func(d device) bool {
			key := deviceKey{d.Pool, d.Device}
			return before[key].health != after[key].health || before[key].message != after[key].message
		})
		if changed {
			touched = append(touched, m.state.users(uid)...)
		}
	}
	return touched
}

// known is what counts of a device: what the newest instance of its driver says that says anything. The caller holds mu.
func (m *Manager) known(driver string, key deviceKey, now time.Time) condition {
	for _, i := range slices.Backward(m.drivers[driver]) {
		if c, is := m.health[i][key]; is && now.Before(c.until) {
			return c
		}
	}
	return condition{}
}

func (m *Manager) tell(pods []types.UID) {
	for _, uid := range pods {
		m.cfg.Wake(uid)
	}
}

// Health tells of the devices of a container, by claim, for its status. Drivers that say nothing leave it unknown.
func (m *Manager) Health(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	uses, now := m.state.Pods[pod.UID], m.cfg.Clock.Now()
	if uses == nil {
		return nil
	}
	var out []corev1.ResourceStatus
	for _, wanted := range c.Resources.Claims {
		uid := uses.Claims[wanted.Name]
		if m.state.Claims[uid] == nil {
			continue
		}
		s := corev1.ResourceStatus{Name: corev1.ResourceName("claim:" + wanted.Name)}
		if wanted.Request != "" {
			s.Name += corev1.ResourceName("/" + wanted.Request)
		}
		m.state.each(part{uid, resourceclaim.BaseRequestRef(wanted.Request)}, func(driver string, d device) {
			h := corev1.ResourceHealth{ResourceID: corev1.ResourceID(driver + "/" + d.Pool + "/" + d.Device), Health: corev1.ResourceHealthStatusUnknown}
			if len(d.CDI) > 0 {
				h.ResourceID = corev1.ResourceID(d.CDI[0])
			}
			if known := m.known(driver, deviceKey{d.Pool, d.Device}, now); known.health != "" {
				h.Health = known.health
				if known.message != "" {
					h.Message = &known.message
				}
			}
			if !slices.ContainsFunc(s.Resources, func(o corev1.ResourceHealth) bool { return o.ResourceID == h.ResourceID }) {
				s.Resources = append(s.Resources, h)
			}
		})
		if len(s.Resources) > 0 {
			out = append(out, s)
		}
	}
	return out
}
