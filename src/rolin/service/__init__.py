"""The decision service: `rolin serve`. It needs the extra `rolin[service]`."""
