"""What every room stands on: registries, JSON members, arguments, optional packages, locks, threads."""
