// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is what commands do with functions: call one, and make one of a folder. Touch it when such a command is to do more.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
)

// fieldManager writes what Create makes.
const fieldManager = "minik8s-function"

// Client calls and makes functions in a cluster.
type Client struct {
	config *rest.Config
	client client.Client
}

// New returns a Client with the rights of config.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", "" // our kinds have no protobuf
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Client{config: config, client: c}, nil
}

// Request is a call of a function.
type Request struct {
	// Namespace and Name are the function's.
	Namespace, Name string
	// Payload is the JSON that it is called with.
	Payload string
	// Async asks for an id in place of the answer.
	Async bool
	// Result is such an id, whose answer is asked for; nothing is called then.
	Result string
}

// CallError is that of a call which was answered otherwise than by success.
type CallError struct {
	// Status is that of HTTP, such as 500.
	Status int
	// Body is what was answered.
	Body string
}

func (e *CallError) Error() string {
	return fmt.Sprintf("the function answers %d %s: %s", e.Status, http.StatusText(e.Status), strings.TrimSpace(e.Body))
}

// Call calls a function and returns what it answers. The error is a *CallError if that is no success. Its Service is called directly where
// it can be reached, which is on the machines of the cluster and in pods; from elsewhere by way of the API server, which takes the right
// to nodes/proxy. Nothing is sent twice.
func (c *Client) Call(ctx context.Context, r Request) ([]byte, error) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
	var fn v1alpha1.Function
	if err := c.client.Get(ctx, key, &fn); err != nil {
		return nil, err
	}
	if err := c.client.Get(ctx, key, &service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("function %s is not served yet, see why with: kubectl describe function -n %s %s", key, r.Namespace, r.Name)
		}
		return nil, err
	}
	at := net.JoinHostPort(service.Spec.ClusterIP, "80")
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", at)
	if err == nil {
		defer conn.Close()
		transport := &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		}
		return do(ctx, &http.Client{Transport: transport}, "http://"+at, r)
	}
	return c.throughAPI(ctx, r)
}

// throughAPI calls the activator as what listens on a port of a node.
func (c *Client) throughAPI(ctx context.Context, r Request) ([]byte, error) {
	var slice discoveryv1.EndpointSlice
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name + "-activator"}, &slice); err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := c.client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("the function's Service cannot be reached from here, and looking for a way through the API server: %w", err)
	}
	if len(slice.Endpoints) == 0 || len(slice.Ports) == 0 || slice.Ports[0].Port == nil {
		return nil, errors.New("the function is not served yet")
	}
	address, port := slice.Endpoints[0].Addresses[0], strconv.Itoa(int(*slice.Ports[0].Port))
	for i := range nodes.Items {
		for _, a := range nodes.Items[i].Status.Addresses {
			if a.Address != address {
				continue
			}
			h, err := rest.HTTPClientFor(c.config)
			if err != nil {
				return nil, err
			}
			base := strings.TrimSuffix(c.config.Host, "/") + "/api/v1/nodes/" + nodes.Items[i].Name + ":" + port + "/proxy"
			if !strings.Contains(c.config.Host, "://") {
				base = "https://" + base
			}
			return do(ctx, h, base, r)
		}
	}
	return nil, fmt.Errorf("the function's Service cannot be reached from here, and %s, where it is served, is no node: call it by an Ingress, or in a pod", address)
}

func do(ctx context.Context, h *http.Client, base string, r Request) ([]byte, error) {
	method, at, body := http.MethodPost, base+"/", r.Payload
	if r.Result != "" {
		method, at, body = http.MethodGet, base+activator.ResultsPath+r.Result, ""
	}
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "minik8s-execute")
	if r.Async {
		req.Header.Set("Prefer", "respond-async")
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling the function: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the function's answer: %w", err)
	}
	if r.Result != "" && resp.StatusCode == http.StatusAccepted {
		return nil, errors.New("the function has not answered yet")
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, &CallError{Status: resp.StatusCode, Body: string(data)}
	}
	return data, nil
}

// Create makes a function of a folder, or of what it was before: the files go to a ConfigMap of its name with -source at the end.
func (c *Client) Create(ctx context.Context, namespace, name string, spec v1alpha1.FunctionSpec, folder string) error {
	files, err := Folder(os.DirFS(folder))
	if err != nil {
		return fmt.Errorf("reading %s: %w", folder, err)
	}
	cm, err := revision.ToConfigMap(name+"-source", files)
	if err != nil {
		return err
	}
	cm.Namespace = namespace
	cm.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	spec.Source = v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: cm.Name}}
	fn := &v1alpha1.Function{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec,
	}
	if err := c.apply(ctx, cm); err != nil {
		return err
	}
	if err := c.apply(ctx, fn); err != nil {
		return err
	}
	// The files go with the function.
	owner := metav1.OwnerReference{APIVersion: fn.APIVersion, Kind: fn.Kind, Name: name, UID: fn.UID}
	cm.OwnerReferences = []metav1.OwnerReference{owner}
	return c.apply(ctx, cm)
}

// apply gives an object the fields that are set, and fills in its uid.
func (c *Client) apply(ctx context.Context, o client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	for _, field := range [][]string{{"status"}, {"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"spec", "resources"}} {
		unstructured.RemoveNestedField(fields, field...)
	}
	for _, field := range []string{"minScale", "maxScale"} { // 0 is the default's to say
		if n, found, _ := unstructured.NestedInt64(fields, "spec", field); found && n == 0 {
			unstructured.RemoveNestedField(fields, "spec", field)
		}
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("making %s %q: %w", u.GetKind(), o.GetName(), err)
	}
	o.SetUID(u.GetUID())
	return nil
}

// Folder reads the files of a folder and those below it, but for hidden ones and what Python and Node leave behind.
func Folder(folder fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	size := 0
	err := fs.WalkDir(folder, ".", func(at string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case at == ".":
			return nil
		case strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no plain file", at)
		}
		data, err := fs.ReadFile(folder, at)
		if err != nil {
			return err
		}
		if size += len(at) + len(data); size > revision.MaxBytes {
			return fmt.Errorf("the files have more than %d KiB, which is what fits: build an image, and name it in source.image of a Function", revision.MaxBytes>>10)
		}
		files[filepath.ToSlash(at)] = data
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New("there are no files")
	}
	return files, err
}
