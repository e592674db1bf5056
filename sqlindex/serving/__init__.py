"""Optional servers over what the package offers; nothing else in it listens on a socket."""
