"""The wire, sans-I/O: messages, values, spaces and frames to bytes and back; no socket, clock or thread."""
