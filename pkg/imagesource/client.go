// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package imagesource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// patience is how long an answer may take to begin, with the wait for a turn. The rest lasts as long as it gets on.
const patience = 2 * time.Minute

// Client asks the API server for images, as the node whose identity it has. Safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
}

// NewClient returns a Client by the configuration of a node.
func NewClient(config *rest.Config) (*Client, error) {
	c := rest.CopyConfig(config)
	c.Timeout = 0 // an image may take long
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("making a client for images: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("making a client for images: %w", err)
	}
	return &Client{client, base}, nil
}

// Open returns an archive of an image of the cluster's machine, by the name by which a pod of the node wants it. It is whole if reading
// it ends with io.EOF. fs.ErrNotExist: there is none, or it is not for the node.
func (c *Client) Open(ctx context.Context, image string) (io.ReadCloser, error) {
	u := *c.base
	u.Path, u.RawQuery = Path, url.Values{"image": {image}}.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no answer within %s", patience)) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	var response *http.Response
	if err == nil {
		response, err = c.http.Do(request)
	}
	if !late.Stop() && err == nil {
		err = errors.Join(context.Cause(ctx), response.Body.Close())
	}
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("asking the cluster's machine for image %q: %w", image, err)
	}
	if response.StatusCode == http.StatusOK {
		return &archive{response, cancel}, nil
	}
	defer cancel(nil)
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return nil, fmt.Errorf("asking the cluster's machine for image %q: %w", image, err)
	}
	err = fmt.Errorf("the cluster's machine answers %s: %s", response.Status, strings.TrimSpace(string(text)))
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusForbidden {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return nil, err
}

// archive is the body of an answer, which ends with an error if it was cut off.
type archive struct {
	response *http.Response
	cancel   context.CancelCauseFunc
}

func (a *archive) Read(p []byte) (int, error) {
	n, err := a.response.Body.Read(p)
	if errors.Is(err, io.EOF) && a.response.Trailer.Get(completed) == "" {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (a *archive) Close() error {
	defer a.cancel(nil)
	return a.response.Body.Close()
}
