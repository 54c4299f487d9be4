// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal runs a program at a terminal of its own, like one that a user sits at.
type terminal struct {
	*output
	keyboard *os.File
	done     chan error
}

func atTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	term := &terminal{output: &output{}, keyboard: master, done: make(chan error, 1)}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = term.Write(buffer[:n]) // never fails
			if err != nil {               // EIO when the program has ended
				return
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		<-copied
		term.done <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = master.Close()
	})
	return term
}

// openTerminal makes a pair of pseudo-terminals of 40 rows and 120 columns.
func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("numbering the terminal: %w", err)
	}
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlocking the terminal: %w", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the terminal's other end: %w", err)
	}
	if err = unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		_ = slave.Close()
		return nil, nil, fmt.Errorf("sizing the terminal: %w", err)
	}
	return master, slave, nil
}

// typeLine types a line and the enter key.
func (term *terminal) typeLine(t *testing.T, line string) {
	t.Helper()
	if _, err := term.keyboard.WriteString(line + "\r"); err != nil {
		t.Fatal(err)
	}
}
