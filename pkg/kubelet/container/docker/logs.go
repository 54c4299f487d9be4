// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// DiskUsage implements container.Runtime. The daemon walks through the container's layer for it.
func (r *Runtime) DiskUsage(ctx context.Context, id string) (container.DiskUsage, error) {
	found, _, err := r.client.ContainerInspectWithRaw(ctx, id, true)
	if err != nil {
		return container.DiskUsage{}, engineError(err, "measuring %q", id)
	}
	if !r.owns(found.Config.Labels) || found.Config.Labels[labelKind] != kindContainer {
		return container.DiskUsage{}, fmt.Errorf("measuring %q: not a container of this node: %w", id, container.ErrNotFound)
	}
	var u container.DiskUsage
	if found.SizeRw != nil {
		u.Rootfs = *found.SizeRw
	}
	u.Log = logSize(found.LogPath)
	return u, nil
}

// logSize is that of a log with the parts that Docker has rotated away. A log that is kept elsewhere takes nothing here.
func logSize(file string) (size int64) {
	if file == "" {
		return 0
	}
	for i, next := 0, file; ; i, next = i+1, fmt.Sprintf("%s.%d", file, i+1) {
		info, err := os.Stat(next)
		if err != nil {
			info, err = os.Stat(next + ".gz")
		}
		if err != nil {
			return size
		}
		size += info.Size()
	}
}

// Logs implements container.Runtime. As upstream, Tail counts the lines of both streams together, before Since is
// looked at. A TTY has one stream, which goes to stdout.
func (r *Runtime) Logs(ctx context.Context, id string, o container.LogOptions, stdout, stderr io.Writer) error {
	found, err := r.inspect(ctx, id, kindContainer)
	if err != nil {
		return err
	}
	tty := found.Config.Tty
	options := dockercontainer.LogsOptions{
		ShowStdout: stdout != nil || tty, ShowStderr: stderr != nil && !tty,
		Follow: o.Follow, Timestamps: o.Timestamps, Tail: "all",
	}
	if o.Tail >= 0 {
		options.Tail = strconv.FormatInt(o.Tail, 10)
	}
	if !o.Since.IsZero() {
		options.Since = o.Since.Format(time.RFC3339Nano)
	}
	if !o.Until.IsZero() {
		options.Until = o.Until.Format(time.RFC3339Nano)
	}
	if !options.ShowStdout && !options.ShowStderr || o.Tail == 0 && !o.Follow {
		return nil
	}
	body, err := r.client.ContainerLogs(ctx, id, options)
	if err != nil {
		return engineError(err, "reading the log of container %q", id)
	}
	defer body.Close()
	stdout, stderr = orDiscard(stdout), orDiscard(stderr)
	if tty {
		_, err = io.Copy(stdout, body)
	} else {
		if o.Timestamps {
			stdout, stderr = &lineStamps{to: stdout}, &lineStamps{to: stderr}
		}
		_, err = stdcopy.StdCopy(stdout, stderr, body)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("reading the log of container %q: %w", id, err)
	}
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// lineStamps drops the timestamps that Docker puts into the middle of a line longer than 16 KiB, which it keeps in
// pieces. Each Write must be one piece with its timestamp.
type lineStamps struct {
	to     io.Writer
	inLine bool
}

func (l *lineStamps) Write(piece []byte) (int, error) {
	text := piece
	if l.inLine {
		if _, rest, ok := bytes.Cut(piece, []byte(" ")); ok {
			text = rest
		}
	}
	l.inLine = len(piece) > 0 && piece[len(piece)-1] != '\n'
	if _, err := l.to.Write(text); err != nil {
		return 0, err
	}
	return len(piece), nil
}
