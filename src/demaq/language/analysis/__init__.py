"""What can be told about an application without running it: what the checks and others build on."""
