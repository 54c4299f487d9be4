// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package login runs commands on another machine by SSH, whose host key must be known. Touch it to change how we get in.
package login

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Config says where and who.
type Config struct {
	// Host is the name by which known_hosts knows the machine.
	Host string
	Port int
	// Address is where it is; default what the name resolves to.
	Address string
	User    string
	// PrivateKey is in PEM or OpenSSH's form and has no passphrase; KnownHosts is in the form of OpenSSH's file.
	PrivateKey, KnownHosts []byte
}

// ErrRefused is wrapped by errors that will not go away by themselves: another key, an unknown host, a user who may not get in.
var ErrRefused = errors.New("refused")

// Timeout is how long it may take to get in.
const Timeout = 15 * time.Second

// Connection is to one machine. Safe for concurrent use.
type Connection struct {
	client *ssh.Client
}

// Dial gets in.
func Dial(ctx context.Context, c Config) (*Connection, error) {
	signer, err := ssh.ParsePrivateKey(c.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("%w: the private key cannot be read: %w", ErrRefused, err)
	}
	check, err := hostKeys(c.KnownHosts)
	if err != nil {
		return nil, fmt.Errorf("%w: known_hosts cannot be read: %w", ErrRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	address := net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(cmp.Or(c.Address, c.Host), strconv.Itoa(c.Port)))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) }) // a server that says nothing
	config := &ssh.ClientConfig{
		User: c.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: check,
		HostKeyAlgorithms: algorithms(check, address, raw.RemoteAddr(), c.KnownHosts),
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, address, config)
	if err != nil {
		stop()
		return nil, errors.Join(explain(err), raw.Close())
	}
	if !stop() {
		return nil, errors.Join(context.Cause(ctx), conn.Close())
	}
	return &Connection{client: ssh.NewClient(conn, channels, requests)}, nil
}

// hostKeys reads a known_hosts file, which the library wants to be a file.
func hostKeys(text []byte) (ssh.HostKeyCallback, error) {
	f, err := os.CreateTemp("", "minik8s-known-hosts-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return knownhosts.New(f.Name())
}

// algorithms are those of host keys, those first of which there is a key in known_hosts: a machine has keys of several kinds, and shows
// the one that we like best, which need not be the one that is known (ssh_config(5), HostKeyAlgorithms). Nil is the library's order: of a
// machine that is not known, and where authorities are, whose certificates come first there.
func algorithms(check ssh.HostKeyCallback, address string, remote net.Addr, text []byte) []string {
	if bytes.Contains(text, []byte("@cert-authority")) {
		return nil
	}
	nobodys, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil
	}
	var other *knownhosts.KeyError
	if !errors.As(check(address, remote, nobodys), &other) || len(other.Want) == 0 {
		return nil
	}
	var first []string
	for _, known := range other.Want {
		if kind := known.Key.Type(); kind == ssh.KeyAlgoRSA { // by which signatures of SHA-1 are called, too
			first = append(first, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA)
		} else {
			first = append(first, kind)
		}
	}
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if !slices.Contains(first, a) {
			first = append(first, a)
		}
	}
	return first
}

// explain says which errors will not go away.
func explain(err error) error {
	var unknown *knownhosts.KeyError
	var auth *ssh.ServerAuthError
	switch {
	case errors.As(err, &unknown) && len(unknown.Want) == 0:
		return fmt.Errorf("%w: its host key is not in known_hosts (see ssh-keyscan)", ErrRefused)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: its host key is not the one in known_hosts", ErrRefused)
	case errors.As(err, &auth) || bytes.Contains([]byte(err.Error()), []byte("unable to authenticate")):
		return fmt.Errorf("%w: it does not let the user in with this key: %w", ErrRefused, err)
	}
	return err
}

// Close ends it, and what runs by it.
func (c *Connection) Close() error { return c.client.Close() }

// Result is what a command has written, the last bytes of each up to the limit.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a command of a shell until it or ctx ends. A code other than 0 is no error; that it has no code, as a signal ended it or the
// connection broke, is one.
func (c *Connection) Run(ctx context.Context, command string, stdin io.Reader, limit int) (Result, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.client.Close() }) // nothing else ends what a machine that is silent does not answer
	defer stop()
	session, err := c.client.NewSession()
	if err != nil {
		return Result{}, err
	}
	defer session.Close()
	out, errOut := &tail{limit: limit}, &tail{limit: limit}
	session.Stdin, session.Stdout, session.Stderr = stdin, out, errOut
	err = session.Run(command)
	r := Result{Stdout: out.String(), Stderr: errOut.String()}
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok && exit.Signal() == "" {
		r.Code = exit.ExitStatus()
		return r, nil
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, err
}

// tail keeps the last bytes.
type tail struct {
	limit int
	kept  []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept[max(0, len(t.kept)-t.limit):]) }
