// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// cronState is when a trigger calls next.
type cronState struct {
	spec  v1alpha1.CronTrigger
	times cron.Schedule
	next  time.Time
}

// schedule reads the times of a trigger.
func schedule(t v1alpha1.CronTrigger) (cron.Schedule, error) {
	if strings.HasPrefix(t.Schedule, "TZ=") || strings.HasPrefix(t.Schedule, "CRON_TZ=") {
		return nil, fmt.Errorf("schedule %q: name the time zone in timeZone", t.Schedule)
	}
	zone := t.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return nil, fmt.Errorf("timeZone %q is none of the tz database", t.TimeZone)
	}
	text := t.Schedule
	if !strings.HasPrefix(text, "@every") {
		text = "TZ=" + zone + " " + text
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", t.Schedule, err)
	}
	return s, nil
}

// fireCron calls the function for the triggers whose time has come.
func (p *pass) fireCron() {
	there := map[string]bool{}
	for _, t := range p.fn.Spec.Triggers {
		there[t.Name] = true
		c := p.state.cron[t.Name]
		if c == nil || c.spec != t.Cron {
			times, err := schedule(t.Cron)
			if err != nil {
				p.problem = problem{v1alpha1.ReasonTrigger, fmt.Sprintf("trigger %s: %v", t.Name, err)}
				delete(p.state.cron, t.Name)
				continue
			}
			c = &cronState{spec: t.Cron, times: times, next: times.Next(p.now)}
			p.state.cron[t.Name] = c
		}
		if c.next.After(p.now) {
			continue
		}
		c.next = c.times.Next(p.now)
		go p.callAtTime(t)
	}
	for name := range p.state.cron {
		if !there[name] {
			delete(p.state.cron, name)
		}
	}
}

// nextCron is how long it is until a trigger calls; 0 if none does.
func (p *pass) nextCron() time.Duration {
	next := time.Duration(0)
	for _, c := range p.state.cron {
		if until := max(time.Until(c.next), time.Millisecond); next == 0 || until < next {
			next = until
		}
	}
	return next
}

// callAtTime calls the function as anybody does.
func (p *pass) callAtTime(t v1alpha1.Trigger) {
	port, err := p.activator.Serve(p.name, 0)
	if err == nil {
		err = p.post("http://"+net.JoinHostPort(p.config.Address.String(), strconv.Itoa(port)), t)
	}
	if err != nil && p.lifetime.Err() == nil {
		p.recorder.Eventf(p.fn, nil, corev1.EventTypeWarning, "TriggerFailed", "Call", "trigger %s: %v", t.Name, err)
	}
}

func (p *pass) post(url string, t v1alpha1.Trigger) error {
	ctx, cancel := context.WithTimeout(p.lifetime, time.Duration(p.fn.Spec.TimeoutSeconds)*time.Second+time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(t.Cron.Payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("the function answers %s: %s", resp.Status, body)
	}
	return err
}
