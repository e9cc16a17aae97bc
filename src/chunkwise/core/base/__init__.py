"""What everything else uses: registries, JSON members, arguments, optional packages, locks, threads."""
