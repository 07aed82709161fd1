"""The client side of the binary protocol: endpoint, settings, connection."""
