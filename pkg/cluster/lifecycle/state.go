// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle says who may do what to a cluster, and when: the states that a cluster can be in, the next step of
// each operation, and the locks by which one operation at a time is under way. Touch it when a cluster can be in a new
// state, or when something else must exclude the rest.
package lifecycle

// State is what a cluster has left on this machine, whether its process is alive or not. It is kept on disk, so that
// whoever comes after a crash knows what there is to do.
type State string

const (
	// Absent is a cluster of which nothing is there. It is never written.
	Absent State = "absent"
	// Beginning is a first start that has not got so far that anybody could have stored something.
	Beginning State = "beginning"
	// Starting is that of a cluster which has been up before.
	Starting State = "starting"
	// Running is a cluster whose API server has served: there may be pods, network, rules, mounts.
	Running State = "running"
	// Stopped is a cluster of which there are only data.
	Stopped State = "stopped"
	// Purging is one whose data are being deleted: nothing of them may be used any more.
	Purging State = "purging"
)

// Operation is what a user wants of a cluster.
type Operation string

const (
	// Up wants it running and ready.
	Up Operation = "up"
	// Down wants nothing of it but its data.
	Down Operation = "down"
	// Purge wants nothing of it.
	Purge Operation = "down --purge"
)

// Step is one thing to do on the way to what an operation wants.
type Step string

const (
	// Nothing is left to do.
	Nothing Step = "nothing"
	// Await waits until the process that is alive is ready. If it ends instead, the cluster must be looked at again.
	Await Step = "await"
	// Stop ends the process.
	Stop Step = "stop"
	// Undo goes back to before a start that was cut off: from Beginning to Absent, from Starting to Running or Stopped.
	Undo Step = "undo"
	// Start makes a process, by way of Beginning or Starting, that brings the cluster to Running.
	Start Step = "start"
	// Clear goes from Running to Stopped.
	Clear Step = "clear"
	// Erase goes by way of Purging to Absent.
	Erase Step = "erase"
)

// Next is the next step of an operation on a cluster in a state, whose process is alive or not. The caller does the step
// and asks again with what it then finds; each step can be cut off at any instant and repeated.
func Next(op Operation, s State, alive bool) Step {
	switch {
	case alive && op == Up:
		return Await
	case alive:
		return Stop
	case s == Beginning || s == Starting:
		return Undo
	case s == Purging:
		return Erase
	case op == Up:
		return Start
	case s == Running:
		return Clear
	case s == Stopped && op == Purge:
		return Erase
	}
	return Nothing
}
