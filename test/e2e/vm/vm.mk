# Another kernel and engine than this machine's: SUITE=bookworm for Debian 12, RUNTIME=crun, MINUTES=30 at most.
.PHONY: e2e-vm
e2e-vm: docker build kubectl images ## limits and reboots on cgroup v2 with systemd, in a virtual machine; no part of CI
	test/e2e/vm/run
