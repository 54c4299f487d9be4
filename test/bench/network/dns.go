// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/miekg/dns"

	clusterdns "minik8s.io/minik8s/pkg/dns"
	"minik8s.io/minik8s/pkg/heap"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// namesCommand is the first argument of a process that is our cluster DNS and nothing else.
const namesCommand = "names"

const (
	// named is how many Services have names that are asked for.
	named = 1000
	// askers ask at a time, each the next when it has its answer.
	askers = 32
)

// coreFile is kubeadm's without what the machine would be asked for, and without ports of its own.
const coreFile = `.:%d {
    bind 127.0.0.1
    kubernetes cluster.local {
        kubeconfig %s
        ttl 30
    }
    cache 30
}
`

// names measures how many questions for Services cluster DNS answers on one core, beside CoreDNS if it is there.
func (b *bench) names(ctx context.Context) error {
	s, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := s.fill(ctx, named); err != nil {
		return err
	}
	questions, err := questionsFor(named)
	if err != nil {
		return err
	}
	release, err := keepOff(0)
	if err != nil {
		return err
	}
	defer release()
	for i := range b.runs {
		for _, side := range b.sides.InRun(i) {
			if err := b.askNames(ctx, s, side, questions); err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
		}
	}
	return nil
}

// questionsFor are packets that ask for the addresses of as many Services.
func questionsFor(n int) ([][]byte, error) {
	questions := make([][]byte, n)
	for i := range questions {
		m := new(dns.Msg).SetQuestion(fmt.Sprintf("service-%05d.%s.svc.cluster.local.", i, namespace), dns.TypeA)
		var err error
		if questions[i], err = m.Pack(); err != nil {
			return nil, err
		}
	}
	return questions, nil
}

// askNames starts a name server on the first core, and asks it.
func (b *bench) askNames(ctx context.Context, s *server, side figure.Side, questions [][]byte) error {
	dir, err := os.MkdirTemp(b.dir, "names-")
	if err != nil {
		return err
	}
	ports, err := program.FreePorts(1)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(ports[0]))
	p, err := b.startNames(s, side, dir, at)
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := p.Await(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		for _, q := range questions {
			if _, err := ask(ctx, at, [][]byte{q}, 0); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	before, err := p.Usage()
	if err != nil {
		return err
	}
	begun := time.Now()
	took, err := askAll(ctx, at, questions, b.load)
	if err != nil {
		return err
	}
	after, err := p.Usage()
	if err != nil {
		return err
	}
	const what = "cluster DNS on one core, 1000 Services: "
	core := (after.Processor - before.Processor).Seconds()
	b.table.Add(side, figure.Figure{Name: what + "answers", Unit: "/s"}, float64(len(took))/time.Since(begun).Seconds())
	b.table.Add(side, figure.Figure{Name: what + "answers with the time of one core", Unit: "/s", NotBelow: 60000}, float64(len(took))/core)
	b.latency(side, what+"time", 0, took)
	b.table.Add(side, figure.Figure{Name: what + "memory, resident", Unit: "MiB"}, float64(after.Resident)/(1<<20))
	return p.Alive()
}

// startNames starts a name server that answers at an address of the loopback link.
func (b *bench) startNames(s *server, side figure.Side, dir string, at netip.AddrPort) (*program.Program, error) {
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := b.identity.Kubeconfig(kubeconfig, s.URL, "admin", "system:masters"); err != nil {
		return nil, err
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{own, namesCommand, "--kubeconfig=" + kubeconfig, "--listen=" + at.String()}
	if side == figure.Upstream {
		file := filepath.Join(dir, "Corefile")
		if err := os.WriteFile(file, fmt.Appendf(nil, coreFile, at.Port(), kubeconfig), 0o600); err != nil {
			return nil, err
		}
		command = []string{b.coredns, "-conf", file}
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return nil, err
	}
	return program.Start(dir, taskset, "names", append([]string{"--cpu-list", "0"}, command...)...)
}

// askAll has all askers ask for a time, and returns how long each answer took.
func askAll(ctx context.Context, at netip.AddrPort, questions [][]byte, duration time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var errs []error
	var wg sync.WaitGroup
	for i := range askers {
		part := len(questions) / askers
		wg.Go(func() {
			took, err := ask(ctx, at, questions[i*part:(i+1)*part], duration)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// ask asks one question after the other, at least one, for as long, and returns how long each answer took. Every one has to have an address.
func ask(ctx context.Context, at netip.AddrPort, questions [][]byte, duration time.Duration) ([]time.Duration, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", at.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var took []time.Duration
	answer := make([]byte, dns.MaxMsgSize)
	begun := time.Now()
	for i := 0; i == 0 || time.Since(begun) < duration && ctx.Err() == nil; i++ {
		asked := time.Now()
		if err := conn.SetDeadline(asked.Add(time.Second)); err != nil {
			return took, err
		}
		if _, err := conn.Write(questions[i%len(questions)]); err != nil {
			return took, err
		}
		n, err := conn.Read(answer)
		if err != nil {
			return took, err
		}
		const header, code, answers = 12, 3, 7 // the low bytes of the code and of the number of answers
		if n < header || answer[code]&0xf != dns.RcodeSuccess || answer[answers] == 0 {
			return took, fmt.Errorf("no address is answered: % x", answer[:min(n, header)])
		}
		took = append(took, time.Since(asked))
	}
	return took, nil
}

// serveNames runs our cluster DNS, and nothing else, in this process.
func serveNames(ctx context.Context) error {
	set := flag.NewFlagSet(namesCommand, flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	listen := set.String("listen", "", "the address to answer at")
	if err := set.Parse(os.Args[2:]); err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(*listen)
	if err != nil {
		return err
	}
	client, shared, err := watching(*kubeconfig)
	if err != nil {
		return err
	}
	s, err := clusterdns.New(clusterdns.Config{Client: client, Informers: shared, ResolvConf: "none"})
	if err != nil {
		return fmt.Errorf("making cluster DNS: %w", err)
	}
	l, err := s.Listen(clusterdns.ListenConfig{Addr: at})
	if err != nil {
		return err
	}
	shared.StartWithContext(ctx)
	go heap.Manage(ctx, 0) // as on a machine that has joined
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	return errors.Join(s.Start(ctx), <-served)
}
