// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package componentstatus asks the parts of the control plane whether they are well (kubectl get componentstatuses). It is
// deprecated since 1.19; touch it when a part is asked in another way.
package componentstatus

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes componentstatuses.
var Resource = registry.Virtual{
	Kind: corev1.SchemeGroupVersion.WithKind("ComponentStatus"),
	Name: "componentstatuses",
	Build: func(c registry.Config) (rest.Storage, error) {
		return &storage{TableConvertor: registry.NewTable(columns, row), components: c.Components}, nil
	},
}

var columns = []metav1.TableColumnDefinition{
	registry.NameColumn,
	registry.Column("Status", "string", "Status of the component conditions"),
	registry.Column("Message", "string", "Message of the component conditions"),
	registry.Column("Error", "string", "Error of the component conditions"),
}

func row(s *corev1.ComponentStatus) []any {
	for _, c := range s.Conditions {
		if c.Type != corev1.ComponentHealthy {
			continue
		}
		status := "Unhealthy"
		if c.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
		return []any{s.Name, status, c.Message, c.Error}
	}
	return []any{s.Name, "Unknown", "", ""}
}

// storage asks anew for each request.
type storage struct {
	rest.TableConvertor
	components map[string]registry.Check
}

var (
	_ rest.Getter               = (*storage)(nil)
	_ rest.Lister               = (*storage)(nil)
	_ rest.Scoper               = (*storage)(nil)
	_ rest.ShortNamesProvider   = (*storage)(nil)
	_ rest.SingularNameProvider = (*storage)(nil)
)

// New implements rest.Storage.
func (*storage) New() runtime.Object { return &corev1.ComponentStatus{} }

// NewList implements rest.Lister.
func (*storage) NewList() runtime.Object { return &corev1.ComponentStatusList{} }

// Destroy implements rest.Storage.
func (*storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*storage) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (*storage) GetSingularName() string { return "componentstatus" }

// ShortNames implements rest.ShortNamesProvider.
func (*storage) ShortNames() []string { return []string{"cs"} }

// Get implements rest.Getter.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	check, ok := s.components[name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("componentstatus"), name)
	}
	return status(ctx, name, check), nil
}

// List implements rest.Lister. All are asked at the same time, as one that does not answer takes its time.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.components)), func(name string) bool { return !selected(options, name) })
	list := &corev1.ComponentStatusList{Items: make([]corev1.ComponentStatus, len(names))}
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { list.Items[i] = *status(ctx, name, s.components[name]) })
	}
	asking.Wait()
	return list, nil
}

// selected reports whether the options choose the component of that name; none has labels.
func selected(options *internalversion.ListOptions, name string) bool {
	if options == nil {
		return true
	}
	return (options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set{})) &&
		(options.FieldSelector == nil || options.FieldSelector.Matches(fields.Set{"metadata.name": name}))
}

func status(ctx context.Context, name string, check registry.Check) *corev1.ComponentStatus {
	c := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err := check(ctx); err != nil {
		c.Status, c.Message = corev1.ConditionFalse, err.Error()
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{c}}
}

// Listening returns the check of a component that is a program of its own: it tells at a port of this machine how it is.
func Listening(port int) registry.Check {
	client := &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			// Its certificate may be one that it made itself. It is told no secret, and what it says is for people to read.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/healthz", port)
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 10<<10)) // what there is of it
			return fmt.Errorf("HTTP probe failed with statuscode: %d %s", response.StatusCode, body)
		}
		return nil
	}
}
