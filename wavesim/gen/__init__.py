"""cuSyncGen: from a dependency to tile orders, policies, options, CUDA and a tuned plan."""
