// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pluginregistration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

// scan finds the sockets below dir, by their paths from there, and the directories they can be in. Links are nothing, and
// neither is what begins with a dot. Beside an error not all are there.
func scan(dir string) (all map[string]socket.ID, dirs []string, err error) {
	all = map[string]socket.ID{}
	var errs []error
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil // gone meanwhile
		case err != nil:
			errs = append(errs, err)
			return nil
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			dirs = append(dirs, path)
			return nil
		case d.Type() != fs.ModeSocket:
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		s, err := socket.Open(dir, name)
		if err == nil {
			all[name] = s.ID()
			err = s.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return nil
	})
	return all, dirs, errors.Join(append(errs, err)...)
}

// register asks the plugin of a socket what it is, hands it to its handler and tells it what came of that. The plugin is in use
// if it is not nil, also beside an error.
func (w *Watcher) register(ctx context.Context, name string, id socket.ID) (_ *Plugin, err error) {
	s, err := socket.Open(w.cfg.Dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.ID() != id {
		return nil, errors.New("the socket was replaced meanwhile")
	}
	conn, err := s.Client()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	client := registrationv1.NewRegistrationClient(conn)

	actx, cancel := context.WithTimeout(ctx, patience)
	info, err := client.GetInfo(actx, &registrationv1.InfoRequest{})
	cancel()
	if err != nil {
		return nil, fmt.Errorf("failed to get plugin info: %w", err)
	}
	p := &Plugin{Type: info.GetType(), Name: info.GetName(), Endpoint: info.GetEndpoint(), Versions: info.GetSupportedVersions()}
	if p.Endpoint == "" {
		p.Endpoint = filepath.Join(w.cfg.Dir, name)
	}
	status := &registrationv1.RegistrationStatus{PluginRegistered: true}
	if err = w.hand(ctx, *p); err != nil {
		status, p = &registrationv1.RegistrationStatus{Error: err.Error()}, nil
	}
	nctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, nerr := client.NotifyRegistrationStatus(nctx, status); nerr != nil {
		err = errors.Join(err, fmt.Errorf("failed to send registration status: %w", nerr))
	}
	return p, err
}

// hand gives a plugin to its handler. The errors are what upstream tells plugins.
func (w *Watcher) hand(ctx context.Context, p Plugin) error {
	h := w.cfg.Handlers[p.Type]
	if h == nil {
		return fmt.Errorf("RegisterPlugin error -- no handler registered for plugin type: %s at socket %s", p.Type, p.Endpoint)
	}
	err := check(p)
	if err == nil {
		err = h.Validate(p)
	}
	if err != nil {
		return fmt.Errorf("RegisterPlugin error -- plugin validation failed with err: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, handlerPatience)
	defer cancel()
	if err := h.Register(ctx, p); err != nil {
		return fmt.Errorf("RegisterPlugin error -- plugin registration failed with err: %w", err)
	}
	return nil
}
