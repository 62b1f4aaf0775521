"""cuSyncGen: from a dependency and a plan to tile orders, policies, options and CUDA headers."""
