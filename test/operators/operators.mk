.PHONY: operators
operators: docker build kubectl images ## published operators at work, unmodified: JobSet, Kueue, KEDA, CloudNativePG; builds them first, 20 minutes once; NAMES="jobset kueue"
	test/operators/run $(NAMES)
